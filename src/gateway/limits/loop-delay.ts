/** How late the event loop is: every stream of the process waits as long for its next word. */

const LOOK_MS = 100;

export class LoopDelay {
  readonly #now: () => number;
  readonly #timer: NodeJS.Timeout;
  #lookedAt: number;
  #latest = 0;
  #before = 0;

  /** @param now monotonic milliseconds */
  constructor(now: () => number) {
    this.#now = now;
    this.#lookedAt = now();
    this.#timer = setInterval(() => this.#look(), LOOK_MS).unref();
  }

  /** Milliseconds. The lesser of two looks in a row: a single long pause is over when it is seen. */
  get ms(): number {
    return Math.min(this.#latest, this.#before);
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #look(): void {
    const now = this.#now();
    this.#before = this.#latest;
    this.#latest = Math.max(0, now - this.#lookedAt - LOOK_MS);
    this.#lookedAt = now;
  }
}
