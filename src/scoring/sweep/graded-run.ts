/** One run of a task whose answer is known, and what it was worth; and many of them, some at once. */
import { setImmediate as turn } from 'node:timers/promises';
import type { Clock, RunSystem, SharedCalls } from '../../contract/capabilities.ts';
import { ConsortError } from '../../contract/errors.ts';
import type { Plan } from '../../contract/plan.ts';
import type { Task, TaskRow } from '../../contract/task.ts';
import { judge } from '../judge.ts';
import type { Verifier } from '../rewards/reward.ts';

/** What runs and judges. */
export interface Judged {
  readonly run: RunSystem;
  readonly verifiers: readonly Verifier[];
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

export interface Spent {
  readonly calls: number;
  readonly reused: number;
  readonly costMicros: number;
}

/** @throws `verifier_unknown` */
export async function gradedRun(
  plan: Plan,
  task: Task,
  share: SharedCalls,
  { run, verifiers, clock, signal }: Judged,
): Promise<{ readonly reward: number | null; readonly spent: Spent }> {
  const { outcome } = await run(plan, task, { share, signal, stream: false, trace: false });
  const reward = await judge(outcome, verifiers, clock.now());
  if (!reward) {
    const known = verifiers.map(({ id }) => id).join(', ');
    throw new ConsortError('verifier_unknown', [task.verifier ?? 'none', known]);
  }
  const reused = outcome.calls.filter((call) => call.reused).length;
  const spent = { calls: outcome.calls.length - reused, reused, costMicros: outcome.costMicros };
  return { reward: reward.value, spent };
}

/** Works on the rows in their order, `concurrency` of them at once, until all are done or the signal has stopped it. */
export async function sideBySide(
  rows: readonly TaskRow[],
  { concurrency, signal }: { readonly concurrency: number; readonly signal: AbortSignal },
  work: (row: TaskRow, index: number) => Promise<void>,
): Promise<void> {
  const waiting = rows.entries();
  const worker = async () => {
    for (const [index, row] of waiting) {
      // Models in this process answer without a turn of the event loop: signals and timers must get theirs.
      await turn();
      if (signal.aborted) return;
      await work(row, index);
    }
  };
  await Promise.all(Array.from({ length: concurrency }, worker));
}
