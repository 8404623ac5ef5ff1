/** What members say alone to tasks whose answers are known: the data that options are fitted to. */
import type { Task } from '../../contract/task.ts';
import type { Contribution } from './ask-all.ts';

export interface SoloAnswer {
  /** Undefined where the member failed. */
  readonly said?: Contribution;
  readonly isRight: boolean;
}

export interface SoloRow {
  readonly task: Task;
  /** By alias, one for each sample. */
  readonly answers: ReadonlyMap<string, readonly SoloAnswer[]>;
}

/** How options are computed from what members say alone. The result holds for every coalition of them. */
export interface OptionFit<O> {
  /** How many answers of each member to each task are needed. */
  readonly samples: (options: O) => number;
  /**
   * The options with what was fitted in them.
   *
   * @param aliases the pool, in its order
   */
  readonly fit: (options: O, rows: readonly SoloRow[], aliases: readonly string[]) => O;
}

/** The first answer of a member to each task. */
export function firstAnswers(rows: readonly SoloRow[], alias: string): (SoloAnswer | undefined)[] {
  return rows.map(({ answers }) => answers.get(alias)?.[0]);
}

export function shareRight(answers: readonly (SoloAnswer | undefined)[]): number {
  return answers.filter((answer) => answer?.isRight).length / Math.max(1, answers.length);
}
