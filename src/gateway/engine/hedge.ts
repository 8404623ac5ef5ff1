/**
 * Decorator: asks a second time when a call has said nothing for a while, at another endpoint where there is one. Who
 * speaks first is heard, the other one is stopped, and what both cost is counted. A second call comes out of the budget
 * of retries, so that a model that is slow for all is not asked twice for all.
 */
import type { Answer, Exchange, Send } from '../../contract/call.ts';
import { ConsortError } from '../../contract/errors.ts';
import type { Emit, Part } from '../../contract/part.ts';
import type { RetryBudget } from './retry-budget.ts';

export interface Hedging {
  readonly afterMs: number;
  readonly budget: RetryBudget;
}

export interface HedgeOptions {
  /** Undefined for a model that is asked once. */
  readonly hedgingOf: (alias: string) => Hedging | undefined;
  /** A second call was made; whether it was the one that was heard. */
  readonly onHedge: (alias: string, hasWon: boolean) => void;
}

/** One of the calls that race. */
interface Runner {
  readonly control: AbortController;
  /** What comes before the first word, and is heard only with it. */
  readonly held: Part[];
}

class Race {
  readonly #next: Send;
  readonly #exchange: Exchange;
  readonly #done = Promise.withResolvers<Answer>();
  readonly #runners = new Set<Runner>();
  #speaker: Runner | undefined;
  #second: Runner | undefined;
  #error: unknown;

  constructor(next: Send, exchange: Exchange) {
    this.#next = next;
    this.#exchange = exchange;
  }

  /** Whether the second call was made, and whether it was heard. */
  get hedged(): { readonly won: boolean } | undefined {
    return this.#second && { won: this.#speaker === this.#second };
  }

  async run({ afterMs, budget }: Hedging): Promise<Answer> {
    const { signal } = this.#exchange;
    const leave = () => this.#stop(signal.reason);
    signal.addEventListener('abort', leave, { once: true });
    this.#start();
    const timer = setTimeout(() => {
      if (!this.#speaker && budget.take()) this.#second = this.#start();
    }, afterMs);
    try {
      return await this.#done.promise;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', leave);
      this.#stop(new ConsortError('call_not_needed'));
    }
  }

  #start(): Runner {
    const runner: Runner = { control: new AbortController(), held: [] };
    this.#runners.add(runner);
    const emit: Emit = (part) => this.#hear(runner, part);
    void this.#next({ ...this.#exchange, emit, signal: runner.control.signal }).then(
      (answer) => this.#answered(runner, answer),
      (error: unknown) => this.#failed(runner, error),
    );
    return runner;
  }

  #hear(runner: Runner, part: Part): void | Promise<void> {
    if (!this.#speaker && (part.type === 'opaque' || part.type === 'usage')) {
      runner.held.push(part);
      return undefined;
    }
    this.#speaker ??= runner;
    if (this.#speaker !== runner) return undefined;
    if (this.#runners.size > 1) this.#keepOnly(runner);
    for (const held of runner.held.splice(0)) void this.#exchange.emit(held);
    return this.#exchange.emit(part);
  }

  #answered(runner: Runner, answer: Answer): void {
    this.#speaker ??= runner;
    if (this.#speaker !== runner) return;
    for (const held of runner.held.splice(0)) void this.#exchange.emit(held);
    this.#keepOnly(runner);
    this.#done.resolve(answer);
  }

  /** A runner that drops out leaves the race to the other, unless it was being heard. */
  #failed(runner: Runner, error: unknown): void {
    this.#runners.delete(runner);
    this.#error ??= error;
    if (this.#speaker === runner) this.#done.reject(error);
    else if (this.#runners.size === 0) this.#done.reject(this.#error);
  }

  #keepOnly(runner: Runner): void {
    this.#runners.delete(runner);
    this.#stop(new ConsortError('call_not_needed'));
    this.#runners.add(runner);
  }

  #stop(reason: unknown): void {
    for (const { control } of this.#runners) control.abort(reason);
    this.#runners.clear();
  }
}

export function hedge({ hedgingOf, onHedge }: HedgeOptions): (next: Send) => Send {
  return (next) => (exchange) => {
    const { alias } = exchange.call.member;
    const hedging = hedgingOf(alias);
    if (!hedging) return next(exchange);
    const race = new Race(next, exchange);
    return race.run(hedging).finally(() => {
      if (race.hedged) onHedge(alias, race.hedged.won);
    });
  };
}
