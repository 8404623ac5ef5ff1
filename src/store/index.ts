/** The stores. To add one: a folder with a `StoreKind`, a line in this list, the conformance suite in its test. */
import { ConsortError } from '../contract/errors.ts';
import type { Store } from '../contract/store.ts';
import { type StoreKind, type StoreOptions, storeSettings } from './options.ts';
import { redis } from './redis/client.ts';
import { sqlite } from './sqlite/client.ts';

export type { StoreOptions } from './options.ts';

const kinds: readonly StoreKind[] = [sqlite, redis];

/**
 * Opens the store that a URL names. A server that is away does not fail it: calls reject with `store_unavailable`
 * until it is there, so ask `ping` where that matters. A file that cannot be used fails it.
 */
export async function openStore(url: string, options: StoreOptions = {}): Promise<Store> {
  const scheme = url.slice(0, url.indexOf(':') + 1);
  const kind = kinds.find(({ schemes }) => schemes.includes(scheme));
  if (!kind) {
    const known = kinds.flatMap(({ schemes }) => schemes).join(', ');
    throw new ConsortError('config_invalid', [
      'store.url',
      `no store is called ${scheme || 'nothing'}`,
      `Use ${known}`,
    ]);
  }
  return kind.open(url, storeSettings(options));
}
