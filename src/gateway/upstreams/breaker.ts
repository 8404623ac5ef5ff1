/**
 * A circuit breaker for one endpoint. It opens when the endpoint keeps failing, and for as long as the endpoint asks
 * when that is busy; then a call is refused at once instead of waiting for what will not come. After a rest a single
 * call probes, and all follow if that one is heard. Only what the endpoint did counts: a client that leaves, or that
 * gives a call too little time, says nothing about it.
 */
import { ConsortError } from '../../contract/errors.ts';

export type CircuitState = 'closed' | 'open' | 'half_open';
export const CIRCUIT_STATES: readonly CircuitState[] = ['closed', 'open', 'half_open'];

/** What the end of a call says about its endpoint. */
export type Verdict = 'alive' | 'failure' | 'busy' | 'broke' | 'nothing';

export interface BreakerOptions {
  /** Failures in a row that open it, where most calls of the time fail. */
  readonly failures: number;
  readonly openMs: number;
  /** Longest rest of a busy endpoint, and the rest of one without credit. */
  readonly coolMs: number;
  /** Monotonic milliseconds. */
  readonly now: () => number;
  readonly onState: (state: CircuitState) => void;
}

/**
 * A busy endpoint that fails now and then has runs of failures, too, and retries see to these: it is open only when most
 * of its calls within the window failed, be it in a row or of many, or when the run is long for any traffic.
 */
const WINDOW_MS = 10_000;
const WINDOW_CALLS = 20;
const MOST = 0.75;
const LONG_RUN = 4;
/** How often a rest is doubled. */
const MOST_DOUBLINGS = 3;
/** Rest of a busy endpoint that does not say how long. */
const BUSY_MS = 1_000;
/** A timer may fire this much before its time. */
const EARLY_MS = 2;

const WHY = {
  failure: 'it kept failing',
  busy: 'it is over its limits',
  broke: 'its account has no credit',
} as const;

export function verdictOf(error: ConsortError): Verdict {
  if (error.code === 'upstream_no_credit') return 'broke';
  if (!error.code.startsWith('upstream_')) return 'nothing';
  if (error.code === 'upstream_status' && error.status === 429) return 'busy';
  // It answered, if only to blame the request or our key.
  if (!error.retryable) return 'alive';
  return error.code === 'upstream_stale' ? 'nothing' : 'failure';
}

export class Breaker {
  readonly #options: BreakerOptions;
  /** When the rest is over; 0 while closed. */
  #until = 0;
  #why: keyof typeof WHY = 'failure';
  /** When the last probe was sent; 0 while none is under way. */
  #probedAt = 0;
  #failuresInRow = 0;
  #rests = 0;
  #busyInRow = 0;
  #window = { since: 0, calls: 0, failures: 0 };

  constructor(options: BreakerOptions) {
    this.#options = options;
  }

  get state(): CircuitState {
    if (this.#until === 0) return 'closed';
    if (this.#isResting(this.#options.now())) return 'open';
    return this.#why === 'busy' ? 'closed' : 'half_open';
  }

  /** How long until a call may go; 0 when it may go now. */
  waitMs(): number {
    if (this.#until === 0) return 0;
    const now = this.#options.now();
    if (this.#isResting(now)) return this.#until - now;
    if (this.#why === 'busy' || this.#probedAt === 0) return 0;
    // A probe that does not end must not keep all others out for ever.
    return Math.max(0, this.#probedAt + this.#options.openMs - now);
  }

  /** To be called before a call is sent, when nothing has to be waited for. Returns whether it is a probe. */
  enter(): boolean {
    if (this.#until === 0) return false;
    if (this.#why === 'busy') {
      this.#close();
      return false;
    }
    if (this.#probedAt === 0) this.#options.onState('half_open');
    this.#probedAt = this.#options.now();
    return true;
  }

  /** Why a call is not sent. */
  refusal(alias: string): ConsortError {
    const retryAfterMs = Math.max(1, Math.ceil(this.waitMs()));
    const status = this.#why === 'busy' ? 429 : 503;
    return new ConsortError('circuit_open', [alias, retryAfterMs, WHY[this.#why]], { status, retryAfterMs });
  }

  /** To be called once for each call that has entered, as soon as it says something about its endpoint. */
  end(verdict: Verdict, isProbe: boolean, askedMs: number | null = null): void {
    if (verdict === 'nothing') {
      if (isProbe) this.#probedAt = 0;
    } else if (verdict === 'alive') this.#alive(isProbe);
    else if (verdict === 'failure') this.#failed(isProbe);
    else if (verdict === 'broke') this.#rest('broke', this.#options.coolMs);
    else {
      const ms = askedMs ?? BUSY_MS * 2 ** Math.min(10, this.#busyInRow++);
      this.#rest('busy', Math.min(this.#options.coolMs, ms));
    }
  }

  #isResting(now: number): boolean {
    return now + EARLY_MS < this.#until;
  }

  #alive(isProbe: boolean): void {
    this.#failuresInRow = 0;
    this.#busyInRow = 0;
    if (isProbe) {
      this.#rests = 0;
      this.#close();
    } else this.#count(false);
  }

  #failed(isProbe: boolean): void {
    if (isProbe) {
      this.#rests++;
      this.#open();
      return;
    }
    // What was sent before it opened says nothing new.
    if (this.#until !== 0) return;
    this.#failuresInRow++;
    this.#count(true);
    const { calls, failures } = this.#window;
    const inRow = this.#failuresInRow / this.#options.failures;
    const areMost = failures >= MOST * calls && (inRow >= 1 || calls >= WINDOW_CALLS);
    if (areMost || inRow >= LONG_RUN) this.#open();
  }

  #count(isFailure: boolean): void {
    const now = this.#options.now();
    if (now - this.#window.since > WINDOW_MS) this.#window = { since: now, calls: 0, failures: 0 };
    this.#window.calls++;
    if (isFailure) this.#window.failures++;
  }

  #open(): void {
    this.#until = 0;
    this.#rest('failure', this.#options.openMs * 2 ** Math.min(MOST_DOUBLINGS, this.#rests));
  }

  #rest(why: keyof typeof WHY, ms: number): void {
    if (ms <= 0) return;
    const wasClosed = this.state !== 'open';
    const until = this.#options.now() + ms;
    this.#probedAt = 0;
    if (until <= this.#until) return;
    this.#until = until;
    this.#why = why;
    if (wasClosed) this.#options.onState('open');
  }

  #close(): void {
    this.#until = 0;
    this.#probedAt = 0;
    this.#failuresInRow = 0;
    this.#window = { since: 0, calls: 0, failures: 0 };
    this.#options.onState('closed');
  }
}
