/**
 * A sweep: every coalition of a design on every task, all coalitions of a prompt side by side so that they share
 * identical calls and are compared on the same prompts.
 */
import { setImmediate as turn } from 'node:timers/promises';
import type { Clock, RunSystem, SharedCalls } from '../../contract/capabilities.ts';
import { ConsortError } from '../../contract/errors.ts';
import type { Outcome } from '../../contract/outcome.ts';
import type { Plan } from '../../contract/plan.ts';
import type { Task, TaskRow } from '../../contract/task.ts';
import { judge } from '../judge.ts';
import type { Verifier } from '../rewards/reward.ts';
import type { PromptResult } from './journal.ts';
import { taskOfRow } from './task-file.ts';

export interface SweepParts {
  readonly run: RunSystem;
  readonly verifiers: readonly Verifier[];
  readonly clock: Clock;
  /** The plan of one coalition for one task. */
  readonly planFor: (row: TaskRow, mask: number) => Plan;
  readonly masks: readonly number[];
  readonly sampling: Task['sampling'];
  /** Prompts under way at once. */
  readonly concurrency: number;
  readonly onResult: (result: PromptResult) => void;
  readonly signal: AbortSignal;
}

/** Runs the rows that are left. Resolves when all are done or the signal has stopped it. */
export async function sweep(rows: readonly TaskRow[], parts: SweepParts): Promise<void> {
  const waiting = rows.values();
  const worker = async () => {
    for (const row of waiting) {
      // Models in this process answer without a turn of the event loop: signals and timers must get theirs.
      await turn();
      if (parts.signal.aborted) return;
      const result = await runPrompt(row, parts);
      // A prompt that was cut short is no result: it is run again next time.
      if (parts.signal.aborted) return;
      parts.onResult(result);
    }
  };
  await Promise.all(Array.from({ length: parts.concurrency }, worker));
}

async function runPrompt(row: TaskRow, parts: SweepParts): Promise<PromptResult> {
  const share: SharedCalls = new Map();
  const task = taskOfRow(row, parts.sampling);
  const rewards: Record<string, number | null> = {};
  let calls = 0;
  let reused = 0;
  let costMicros = 0;
  const count = (outcome: Outcome) => {
    for (const call of outcome.calls) {
      if (call.reused) reused++;
      else calls++;
    }
    costMicros += outcome.costMicros;
  };
  await Promise.all(
    parts.masks.map(async (mask) => {
      const options = { share, signal: parts.signal, stream: false, trace: false };
      const { outcome } = await parts.run(parts.planFor(row, mask), task, options);
      count(outcome);
      const reward = await judge(outcome, parts.verifiers, parts.clock.now());
      if (!reward)
        throw new ConsortError('verifier_unknown', [
          row.verifier,
          parts.verifiers.map(({ id }) => id).join(', '),
        ]);
      rewards[mask] = reward.value;
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
