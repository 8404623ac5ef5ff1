/**
 * Decorator: asks again after a failure that may pass, as long as nothing has been heard and the model's budget allows
 * it. Waits with full jitter (exponential from 100 ms, at most 5 s), after the time that the upstream asked for if it
 * did; whoever asks for more than 30 s is not asked again, for sooner would be in vain. A kept connection that had been
 * closed says nothing about the model: once a call, that is tried again at once and costs nothing. And where the model has
 * another endpoint that has not failed this call, that one is asked at once, whatever the number of retries.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Emit } from '../../contract/part.ts';
import type { CallNote, Exchange, Send } from '../../contract/call.ts';
import { ConsortError } from '../../contract/errors.ts';
import type { Member } from '../../contract/plan.ts';
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
  /** Whether the call could be sent at once to another endpoint. */
  readonly isElsewhere?: (member: Member, note: CallNote) => boolean;
  /** Uniform in [0, 1), for the jitter. */
  readonly jitter: () => number;
  readonly onRetry: (alias: string, code: string) => void;
  /** An attempt that was not made because the budget is used up. */
  readonly onWithheld: (alias: string) => void;
}

/** Whether another endpoint or model may do better: a key, an account or a server is at fault, not the request. */
export function isOfUpstream({ code, retryable, status }: ConsortError): boolean {
  return code.startsWith('upstream_') && (retryable || status === 502);
}

/** The attempts of one call. */
class Attempts {
  readonly #options: RetryOptions;
  readonly #exchange: Exchange;
  readonly #retries: Retries;
  #made = 0;
  #hasRedialled = false;

  constructor(options: RetryOptions, exchange: Exchange) {
    this.#options = options;
    this.#exchange = exchange;
    this.#retries = options.retriesOf(exchange.call.member.alias);
    this.#retries.budget.earn();
  }

  /** Milliseconds until the next attempt; undefined when the failure is final. */
  next(error: ConsortError): number | undefined {
    const { note, call } = this.#exchange;
    const { alias } = call.member;
    if (error.code === 'circuit_open') {
      note.attempts--;
      // Whoever has waited for a busy model once waits again; others are not kept from doing without it.
      if (this.#made === 0 || error.status !== 429) return undefined;
    }
    if (error.code === 'upstream_stale' && !this.#hasRedialled) {
      this.#hasRedialled = true;
      this.#options.onRetry(alias, error.code);
      return 0;
    }
    const isElsewhere = isOfUpstream(error) && this.#options.isElsewhere?.(call.member, note) === true;
    const askedMs = error.retryAfterMs ?? 0;
    const isFinal = !error.retryable || askedMs > LONGEST_ASKED_MS || this.#made >= this.#retries.most;
    if (!isElsewhere && isFinal) return undefined;
    if (!this.#retries.budget.take()) {
      this.#options.onWithheld(alias);
      return undefined;
    }
    this.#options.onRetry(alias, error.code);
    if (isElsewhere) return 0;
    const backOff = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** this.#made++) * this.#options.jitter();
    return askedMs + backOff;
  }
}

export function retry(options: RetryOptions): (next: Send) => Send {
  return (next) => async (exchange) => {
    const { call, signal, note, stream } = exchange;
    const attempts = new Attempts(options, exchange);
    let heard = false;
    const emit: Emit = (part) => {
      heard = true;
      return exchange.emit(part);
    };
    for (;;) {
      note.attempts++;
      try {
        return await next({ call, emit, signal, stream, note });
      } catch (thrown) {
        const error = ConsortError.from(thrown);
        const waitMs = heard || signal.aborted ? undefined : attempts.next(error);
        if (waitMs === undefined) throw error;
        if (waitMs === 0) continue;
        await sleep(waitMs, undefined, { signal }).catch(() => {
          throw signal.reason;
        });
      }
    }
  };
}
