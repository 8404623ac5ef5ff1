/**
 * Decorator: asks again after a failure that may pass, as long as nothing has been heard. Waits with full jitter
 * (exponential from 100 ms, at most 5 s) or for as long as the upstream asked; whoever asks for more than 30 s is not
 * asked again, for sooner would be in vain.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Emit } from '../../contract/part.ts';
import type { Send } from '../../contract/call.ts';
import { ConsortError } from '../../contract/errors.ts';

const FIRST_WAIT_MS = 100;
const LONGEST_WAIT_MS = 5_000;
const LONGEST_ASKED_MS = 30_000;

export interface RetryOptions {
  /** Further attempts after the first. */
  readonly retriesOf: (alias: string) => number;
  /** Uniform in [0, 1), for the jitter. */
  readonly jitter: () => number;
  readonly onRetry: (alias: string, code: string) => void;
}

export function retry({ retriesOf, jitter, onRetry }: RetryOptions): (next: Send) => Send {
  return (next) => async (exchange) => {
    const { call, signal, note, stream } = exchange;
    const retries = retriesOf(call.member.alias);
    let heard = false;
    const emit: Emit = (part) => {
      heard = true;
      return exchange.emit(part);
    };
    for (let attempt = 0; ; attempt++) {
      note.attempts++;
      try {
        return await next({ call, emit, signal, stream, note });
      } catch (thrown) {
        const error = ConsortError.from(thrown);
        const askedMs = error.retryAfterMs ?? 0;
        const isFinal = heard || signal.aborted || !error.retryable || askedMs > LONGEST_ASKED_MS;
        if (isFinal || attempt >= retries) throw error;
        onRetry(call.member.alias, error.code);
        const backOff = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** attempt) * jitter();
        await sleep(error.retryAfterMs ?? backOff, undefined, { signal }).catch(() => {
          throw signal.reason;
        });
      }
    }
  };
}
