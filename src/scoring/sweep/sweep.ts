/**
 * A sweep: every coalition of a design on every task, all coalitions of a prompt side by side so that they share
 * identical calls and are compared on the same prompts.
 */
import type { SharedCalls } from '../../contract/capabilities.ts';
import type { Plan } from '../../contract/plan.ts';
import type { Task, TaskRow } from '../../contract/task.ts';
import { gradedRun, sideBySide, type Judged } from './graded-run.ts';
import type { PromptResult } from './journal.ts';
import { taskOfRow } from './task-file.ts';

export interface SweepParts extends Judged {
  /** The plan of one coalition for one task. */
  readonly planFor: (row: TaskRow, mask: number) => Plan;
  readonly masks: readonly number[];
  readonly sampling: Task['sampling'];
  /** Prompts under way at once. */
  readonly concurrency: number;
  readonly onResult: (result: PromptResult) => void;
}

/** Runs the rows that are left. Resolves when all are done or the signal has stopped it. */
export async function sweep(rows: readonly TaskRow[], parts: SweepParts): Promise<void> {
  await sideBySide(rows, parts, async (row) => {
    const result = await runPrompt(row, parts);
    // A prompt that was cut short is no result: it is run again next time.
    if (!parts.signal.aborted) parts.onResult(result);
  });
}

async function runPrompt(row: TaskRow, parts: SweepParts): Promise<PromptResult> {
  const share: SharedCalls = new Map();
  const task = taskOfRow(row, parts.sampling);
  const rewards: Record<string, number | null> = {};
  let calls = 0;
  let reused = 0;
  let costMicros = 0;
  await Promise.all(
    parts.masks.map(async (mask) => {
      const { reward, spent } = await gradedRun(parts.planFor(row, mask), task, share, parts);
      calls += spent.calls;
      reused += spent.reused;
      costMicros += spent.costMicros;
      rewards[mask] = reward;
    }),
  );
  return {
    task: row.id,
    kind: row.task ?? '',
    cluster: row.cluster ?? row.id,
    rewards,
    calls,
    reused,
    costMicros,
  };
}
