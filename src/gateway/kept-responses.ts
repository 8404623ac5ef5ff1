/**
 * Answers of the Responses API that later requests may name: kept for a while beside the turns of tools, by the key that
 * asked for them. What is too large, or what the store does not take in time, is not kept, and the answer says so.
 */
import { createHash } from 'node:crypto';
import Type, { type Static } from 'typebox';
import { Compile } from 'typebox/compile';
import { ChatMessage } from '../contract/chat.ts';
import { ConsortError } from '../contract/errors.ts';
import type { Turns } from '../contract/store.ts';
import { inTime } from './in-time.ts';

/** As long as a turn of tools, so that the oldest of both go first when there are too many. */
const KEPT_MS = 3_600_000;
const MOST_KEPT = 10_000;
const MOST_BYTES = 262_144;

const Kept = Type.Object({
  v: Type.Literal(1),
  /** As the client got it. */
  response: Type.Record(Type.String(), Type.Unknown()),
  /** The conversation with the answer, without instructions. */
  messages: Type.Array(ChatMessage),
});
export type Kept = Static<typeof Kept>;

const keptCheck = Compile(Kept);

export class KeptResponses {
  readonly #store: Turns;

  constructor(store: Turns) {
    this.#store = store;
  }

  /** Whether it is kept. Never rejects. */
  async keep(tenant: string, id: string, kept: Omit<Kept, 'v'>): Promise<boolean> {
    const text = JSON.stringify({ v: 1, ...kept });
    if (Buffer.byteLength(text) > MOST_BYTES) return false;
    try {
      await inTime(this.#store.keep(nameOf(tenant, id), text, KEPT_MS, MOST_KEPT));
      return true;
    } catch {
      return false;
    }
  }

  /** @throws `response_not_found`, `store_unavailable` */
  async find(tenant: string, id: string, param?: string): Promise<Kept> {
    let text: string | undefined;
    try {
      text = await inTime(this.#store.find(nameOf(tenant, id)));
    } catch (error) {
      throw new ConsortError('store_unavailable', ['responses are kept there'], { cause: error });
    }
    const kept: unknown = text ? JSON.parse(text) : undefined;
    if (keptCheck.Check(kept)) return kept;
    throw new ConsortError('response_not_found', [id], param === undefined ? {} : { param, status: 400 });
  }

  /** @throws `response_not_found`, `store_unavailable` */
  async forget(tenant: string, id: string): Promise<void> {
    await this.find(tenant, id);
    try {
      // An empty text is none.
      await inTime(this.#store.keep(nameOf(tenant, id), '', 1, MOST_KEPT));
    } catch (error) {
      throw new ConsortError('store_unavailable', ['responses are kept there'], { cause: error });
    }
  }
}

/** Whoever asks must have the key that it was kept for, so nothing else needs a check. */
function nameOf(tenant: string, id: string): string {
  return createHash('sha256')
    .update(JSON.stringify(['response', tenant, id]))
    .digest('hex');
}
