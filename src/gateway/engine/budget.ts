/** Decorator: refuses a call that the run can no longer pay for. Counts calls before they start, money after. */
import type { Answer, Send } from '../../contract/call.ts';
import { ConsortError } from '../../contract/errors.ts';
import type { Budget } from '../../contract/plan.ts';
import { costOf } from './record.ts';

/** What one run has used of its budget. */
export class Purse {
  readonly #budget: Budget;
  #calls = 0;
  #micros = 0;

  constructor(limits: Budget) {
    this.#budget = limits;
  }

  get callsLeft(): number {
    return this.#budget.calls - this.#calls;
  }

  reserve(): void {
    const { calls, costMicros: limit } = this.#budget;
    if (this.#calls >= calls) throw new ConsortError('budget_spent', [`all ${calls} calls are used`]);
    if (limit !== null && this.#micros >= limit) {
      throw new ConsortError('budget_spent', [`${this.#micros / 1e6} USD of ${limit / 1e6} USD are used`]);
    }
    this.#calls++;
  }

  spend(micros: number): void {
    this.#micros += micros;
  }
}

export function budget(purse: Purse): (next: Send) => Send {
  return (next) => async (exchange) => {
    purse.reserve();
    let answer: Answer | undefined;
    try {
      return (answer = await next(exchange));
    } finally {
      purse.spend(costOf(exchange, answer));
    }
  };
}
