/**
 * Decorator: asks again after a failure that may pass, as long as nothing has been heard and the model's budget allows
 * it. Waits with full jitter (exponential from 100 ms, at most 5 s), after the time that the upstream asked for if it
 * did; whoever asks for more than 30 s is not asked again, for sooner would be in vain. A kept connection that had been
 * closed says nothing about the model: once a call, that is tried again at once and costs nothing.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Emit } from '../../contract/part.ts';
import type { Send } from '../../contract/call.ts';
import { ConsortError } from '../../contract/errors.ts';
import type { RetryBudget } from './retry-budget.ts';

const FIRST_WAIT_MS = 100;
const LONGEST_WAIT_MS = 5_000;
const LONGEST_ASKED_MS = 30_000;

export interface Retries {
  /** Further attempts after the first. */
  readonly most: number;
  readonly budget: RetryBudget;
}

export interface RetryOptions {
  readonly retriesOf: (alias: string) => Retries;
  /** Uniform in [0, 1), for the jitter. */
  readonly jitter: () => number;
  readonly onRetry: (alias: string, code: string) => void;
  /** An attempt that was not made because the budget is used up. */
  readonly onWithheld: (alias: string) => void;
}

export function retry({ retriesOf, jitter, onRetry, onWithheld }: RetryOptions): (next: Send) => Send {
  return (next) => async (exchange) => {
    const { call, signal, note, stream } = exchange;
    const { alias } = call.member;
    const { most, budget } = retriesOf(alias);
    let heard = false;
    let redialled = false;
    const emit: Emit = (part) => {
      heard = true;
      return exchange.emit(part);
    };
    budget.earn();
    for (let attempt = 0; ; attempt++) {
      note.attempts++;
      try {
        return await next({ call, emit, signal, stream, note });
      } catch (thrown) {
        const error = ConsortError.from(thrown);
        const askedMs = error.retryAfterMs ?? 0;
        if (error.code === 'circuit_open') {
          note.attempts--;
          // Whoever has waited for a busy model once waits again; others are not kept from doing without it.
          if (attempt === 0 || error.status !== 429) throw error;
        }
        if (heard || signal.aborted || !error.retryable || askedMs > LONGEST_ASKED_MS) throw error;
        if (error.code === 'upstream_stale' && !redialled) {
          redialled = true;
          attempt--;
          onRetry(alias, error.code);
          continue;
        }
        if (attempt >= most) throw error;
        if (!budget.take()) {
          onWithheld(alias);
          throw error;
        }
        onRetry(alias, error.code);
        const backOff = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** attempt) * jitter();
        await sleep(askedMs + backOff, undefined, { signal }).catch(() => {
          throw signal.reason;
        });
      }
    }
  };
}
