/** One evaluation: a system, a set of tasks, a design, a seed; resumable, and repeatable from its seed alone. */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import type { Config } from '../contract/config.ts';
import type { TaskRow } from '../contract/task.ts';
import type { System } from '../gateway/catalog.ts';
import { bitsOf } from '../gateway/engine/outcome.ts';
import { mergedFor } from '../gateway/merges.ts';
import { planOf } from '../gateway/resolve.ts';
import { sourceOf } from '../scoring/judge.ts';
import { verifiers } from '../scoring/rewards/index.ts';
import { Journal, type PromptResult } from '../scoring/sweep/journal.ts';
import { reportOf, type SweepReport } from '../scoring/sweep/report.ts';
import { sweep } from '../scoring/sweep/sweep.ts';
import { clock, newId } from './natives.ts';
import { openSystem, type RunningSystem } from './system.ts';

export interface Evaluation {
  readonly system: System;
  /** Name of the task set, for records. */
  readonly tasks: string;
  readonly rows: readonly TaskRow[];
  readonly design: 'full' | 'loo';
  readonly masks: readonly number[];
  readonly seed: number;
  readonly temperature?: number;
  /** Prompts under way at once. */
  readonly concurrency: number;
}

/** How far it got, and what came out. */
export interface Evaluated {
  readonly results: readonly PromptResult[];
  /** Absent when the signal stopped it. */
  readonly report?: SweepReport;
}

/**
 * The system as evaluations run it. Simulated models take no time and have no accidents here: their known truth
 * has neither. A real model that fails is asked all the same: prompts must not rush by while it rests. The chance of a sweep comes from its seed, so that it can be repeated elsewhere.
 */
export function openForEvaluation(config: Config, secret: string | undefined): RunningSystem {
  const models = config.models.map(({ hedgeAfterMs: _twice, ...model }) => ({
    ...model,
    delays: false,
    failures: false,
    fallbacks: [],
    // As many as `retries` allows: nobody waits for an answer, and one that is lost is a hole in the measurement.
    retryShare: 10,
    breaker: { ...model.breaker, enabled: false },
  }));
  return openSystem(
    { ...config, models },
    { secret: secret ?? 'sweep', onOutcome: () => undefined, onRetry: () => undefined },
  );
}

/** Everything that could change a reward: the journal of another evaluation is another file. */
function fingerprint({ system, design, seed, temperature, rows }: Evaluation): string {
  const versions = verifiers.map((verifier) => sourceOf(verifier));
  const tasks = rows.map(({ id, gold, prompt, messages }) => [id, gold, prompt, messages]);
  const material = [
    system.id,
    system.pool.revision,
    system.protocolRevision,
    design,
    seed,
    temperature,
    versions,
    tasks,
  ];
  return createHash('sha256').update(JSON.stringify(material)).digest('hex').slice(0, 16);
}

export interface EvaluationHooks {
  /** Where journals are kept. */
  readonly directory: string;
  readonly signal: AbortSignal;
  /** Called with the prompts done so far, at the start and after each. */
  readonly onProgress: (done: number) => void;
}

export async function runEvaluation(
  { catalog, run }: RunningSystem,
  evaluation: Evaluation,
  { directory, signal, onProgress }: EvaluationHooks,
): Promise<Evaluated> {
  const { system, rows, seed, design, temperature } = evaluation;
  // A coalition that is not merged is found before the first call.
  for (const mask of evaluation.masks) mergedFor(system, mask);
  const journal = new Journal(join(directory, `${fingerprint(evaluation)}.jsonl`));
  const results: PromptResult[] = rows.flatMap(({ id }) => journal.done.get(id) ?? []);
  onProgress(results.length);
  const { members } = system.pool;
  await sweep(
    rows.filter(({ id }) => !journal.done.has(id)),
    {
      run,
      verifiers,
      clock,
      masks: evaluation.masks,
      sampling: temperature === undefined ? {} : { temperature },
      concurrency: evaluation.concurrency,
      signal,
      planFor(row, mask) {
        const coalition = bitsOf(mask).flatMap((bit) => members[bit]?.alias ?? []);
        const choices = { coalition, design, ...(row.cluster !== undefined && { cluster: row.cluster }) };
        const promptInstance = `${seed}/${row.id}`;
        const identity = { id: newId(), seed: String(seed), promptInstance, tenant: 'eval' };
        return planOf({ catalog, maxStreamMs: Number.MAX_SAFE_INTEGER }, system, choices, identity);
      },
      onResult(result) {
        journal.append(result);
        results.push(result);
        onProgress(results.length);
      },
    },
  );
  if (signal.aborted) return { results };
  // In the order of the tasks, so that the numbers do not depend on who finished first.
  const order = new Map(rows.map(({ id }, index) => [id, index]));
  const sorted = results.toSorted((a, b) => (order.get(a.task) ?? 0) - (order.get(b.task) ?? 0));
  return { results: sorted, report: reportFor(evaluation, sorted) };
}

function reportFor(
  { system, tasks, design, masks, rows }: Evaluation,
  results: readonly PromptResult[],
): SweepReport {
  const named = new Set(rows.map(({ verifier }) => verifier));
  const sources = verifiers.filter(({ id }) => named.has(id)).map((verifier) => sourceOf(verifier));
  const players = system.pool.members.map(({ alias }) => alias);
  return reportOf(results, players, masks, {
    system: system.id,
    task: tasks,
    source: sources.join('+'),
    design,
    poolRevision: system.pool.revision,
    protocolRevision: system.protocolRevision,
    simulated: system.simulated,
    at: clock.now(),
  });
}
