/** Trials: one way to run a system after the other on the same rows, sharing identical calls row by row. */
import type { SharedCalls } from '../../contract/capabilities.ts';
import type { Plan } from '../../contract/plan.ts';
import type { Task, TaskRow } from '../../contract/task.ts';
import { gradedRun, sideBySide, type Judged, type Spent } from './graded-run.ts';
import { taskOfRow } from './task-file.ts';

export interface TrialParts extends Judged {
  readonly sampling: Task['sampling'];
  /** Rows under way at once. */
  readonly concurrency: number;
}

/** Keeps the answers of all calls until it is dropped. */
export class Trials {
  readonly rows: readonly TaskRow[];
  readonly #parts: TrialParts;
  readonly #shares: readonly SharedCalls[];
  #spent: Spent = { calls: 0, reused: 0, costMicros: 0 };

  constructor(rows: readonly TaskRow[], parts: TrialParts) {
    this.rows = rows;
    this.#parts = parts;
    this.#shares = rows.map((): SharedCalls => new Map());
  }

  get spent(): Spent {
    return this.#spent;
  }

  /**
   * The reward of each row; null where its grader gave none.
   *
   * @throws the signal's reason when it was stopped: then some rows have not been run
   */
  async rewards(planFor: (row: TaskRow) => Plan): Promise<(number | null)[]> {
    const parts = this.#parts;
    const rewards = new Array<number | null>(this.rows.length).fill(null);
    await sideBySide(this.rows, parts, async (row, index) => {
      const share: SharedCalls = this.#shares[index] ?? new Map();
      const { reward, spent } = await gradedRun(planFor(row), taskOfRow(row, parts.sampling), share, parts);
      rewards[index] = reward;
      const { calls, reused, costMicros } = this.#spent;
      this.#spent = {
        calls: calls + spent.calls,
        reused: reused + spent.reused,
        costMicros: costMicros + spent.costMicros,
      };
    });
    parts.signal.throwIfAborted();
    return rewards;
  }
}
