/** Tally keys as text. Parts are escaped, so that names with colons or braces cannot collide or leave their slot. */
import { ConsortError } from '../contract/errors.ts';
import type { TallyKey } from '../contract/store.ts';

const escapes: Readonly<Record<string, string>> = { '%': '%25', ':': '%3A', '{': '%7B', '}': '%7D' };

/** Escapes what would end a part of a name or a hash tag. */
export const escapePart = (part: string): string => part.replace(/[%:{}]/g, (char) => escapes[char] ?? char);

const unescapePart = (part: string): string =>
  part.replace(/%(25|3A|7B|7D)/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));

/** Everything but the pool and the bucket: what a prompt's coalitions must share to be compared. */
function scope(key: TallyKey): string {
  return [key.poolRevision, key.system, key.protocolRevision, key.task, key.source].map(escapePart).join(':');
}

/** The key without its pool. */
export const tallyName = (key: TallyKey): string => `${scope(key)}:${escapePart(key.bucket)}`;

/** The name of what one prompt instance has contributed so far; the same on every day. */
export const joinName = (key: TallyKey, promptInstance: string): string =>
  `${scope(key)}:${escapePart(promptInstance)}`;

/** The key that `tallyName` made. */
export function parseTallyName(pool: string, name: string): TallyKey {
  const parts = name.split(':').map(unescapePart);
  const [poolRevision, system, protocolRevision, task, source, bucket] = parts;
  if (
    poolRevision === undefined ||
    system === undefined ||
    protocolRevision === undefined ||
    task === undefined ||
    source === undefined ||
    bucket === undefined
  ) {
    throw new ConsortError('internal', [`tally name ${name}`]);
  }
  return { pool, poolRevision, system, protocolRevision, task, source, bucket };
}
