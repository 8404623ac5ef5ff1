/**
 * How much one process takes on. Beyond it a request is refused at once, with a time to come back: the answers under way
 * keep their pace, and another replica can take the request, instead of all of them growing slow together.
 */
import { ConsortError } from '../../contract/errors.ts';

export interface AdmissionOptions {
  readonly maxRuns: number;
  readonly maxLoopDelayMs: number;
  /** How late the event loop is, in milliseconds. */
  readonly loopDelayMs: () => number;
  /** Uniform in [0, 1): whoever is refused together does not come back together. */
  readonly random: () => number;
  readonly onShed: (reason: 'runs' | 'loop') => void;
}

const SHORTEST_MS = 1_000;
const SPREAD_MS = 3_000;

export class Admission {
  readonly #options: AdmissionOptions;
  #running = 0;

  constructor(options: AdmissionOptions) {
    this.#options = options;
  }

  get running(): number {
    return this.#running;
  }

  /**
   * Refuses before a body is read.
   *
   * @throws `overloaded`
   */
  check(runs = 1): void {
    const { maxRuns, maxLoopDelayMs, loopDelayMs } = this.#options;
    // A request of more runs than there may be is taken by an idle process, or it never would be.
    if (this.#running > 0 && this.#running + runs > maxRuns) {
      throw this.#refusal('runs', `The gateway has ${this.#running} runs under way, and takes ${maxRuns}`);
    }
    if (this.#running > 0 && loopDelayMs() > maxLoopDelayMs) {
      throw this.#refusal('loop', `The gateway is more than ${maxLoopDelayMs} ms behind with its work`);
    }
  }

  /**
   * Takes runs on; the returned function is to be called once, when they have ended.
   *
   * @throws `overloaded`
   */
  enter(runs: number): () => void {
    this.check(runs);
    this.#running += runs;
    return () => {
      this.#running -= runs;
    };
  }

  #refusal(reason: 'runs' | 'loop', why: string): ConsortError {
    this.#options.onShed(reason);
    const retryAfterMs = SHORTEST_MS + this.#options.random() * SPREAD_MS;
    return new ConsortError('overloaded', [why], { retryAfterMs });
  }
}
