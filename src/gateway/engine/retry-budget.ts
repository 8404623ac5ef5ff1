/**
 * How many further attempts a model may be asked for, as a share of its calls. While a model is down every call fails,
 * and all of them asked again would be several times its usual load at the moment when it can bear the least.
 */

/** Attempts that are there whatever the traffic; as many seconds bring them back. */
const RESERVE = 10;
/** What calm times can save up. */
const MOST = 100;

export class RetryBudget {
  readonly #share: number;
  readonly #now: () => number;
  #left = RESERVE;
  #refilledAt: number;

  /** @param now monotonic milliseconds */
  constructor(share: number, now: () => number) {
    this.#share = share;
    this.#now = now;
    this.#refilledAt = now();
  }

  /** A call has begun. */
  earn(): void {
    if (this.#left < MOST) this.#left += this.#share;
  }

  /** Takes one attempt; false when there is none left. */
  take(): boolean {
    this.#refill();
    if (this.#left < 1) return false;
    this.#left--;
    return true;
  }

  #refill(): void {
    const now = this.#now();
    if (this.#share > 0 && this.#left < RESERVE) {
      this.#left = Math.min(RESERVE, this.#left + (now - this.#refilledAt) / 1000);
    }
    this.#refilledAt = now;
  }
}
