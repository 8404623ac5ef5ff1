/** Decorator: refuses a call that the run can no longer pay for. Counts calls before they start, money after. */
import type { Send } from '../../contract/call.ts';
import { ConsortError } from '../../contract/errors.ts';
import type { Budget } from '../../contract/plan.ts';
import { costMicros } from './record.ts';

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
    const { price } = exchange.call.member;
    let usage = exchange.note.lostUsage;
    try {
      const answer = await next(exchange);
      const lost = exchange.note.lostUsage;
      usage = {
        inputTokens: lost.inputTokens + answer.usage.inputTokens,
        outputTokens: lost.outputTokens + answer.usage.outputTokens,
      };
      return answer;
    } finally {
      if (!exchange.note.reused) purse.spend(costMicros(usage, price));
    }
  };
}
