/** The held-out tasks: the coalitions around a policy on them, with different weights in its place. */
import Type, { type Static } from 'typebox';
import type { RunSystem } from '../../contract/capabilities.ts';
import type { Config } from '../../contract/config.ts';
import type { Release } from '../../contract/release.ts';
import type { Task, TaskRow } from '../../contract/task.ts';
import { bitsOf } from '../../gateway/engine/outcome.ts';
import { planOf } from '../../gateway/resolve.ts';
import type { TeamRun } from '../../policy/release/evidence.ts';
import type { ServedPolicy } from '../../policy/sampler.ts';
import { verifiers } from '../../scoring/rewards/index.ts';
import { PromptResult } from '../../scoring/sweep/journal.ts';
import { sweep } from '../../scoring/sweep/sweep.ts';
import { clock, newId } from '../natives.ts';
import { systemAt, UNLIMITED, type TrainedSystem } from './trained-system.ts';

/** What the coalitions that matter to a policy achieve, by prompt: the team, the team without it, it alone. */
export const Measured = Type.Object({
  results: Type.Array(PromptResult),
  masks: Type.Object({ team: Type.Integer(), without: Type.Integer(), alone: Type.Integer() }),
});
export type Measured = Static<typeof Measured>;

export interface HoldoutParts {
  readonly config: Config;
  readonly system: TrainedSystem;
  readonly rows: readonly TaskRow[];
  readonly run: RunSystem;
  readonly signal: AbortSignal;
}

interface SweepRequest {
  readonly adapter: ServedPolicy['adapter'];
  readonly masks: readonly number[];
  readonly run: RunSystem;
  readonly rows: readonly TaskRow[];
  readonly sampling: Task['sampling'];
  readonly onProgress?: (done: number) => void;
}

/** One instance a prompt, so that all versions meet the same seats and draws. */
function instanceOf(task: string): string {
  return `holdout/${task}`;
}

export class Holdout {
  readonly #parts: HoldoutParts;
  /** All members, and the policy alone. */
  readonly #team: number;
  readonly #alone: number;

  constructor(parts: HoldoutParts) {
    this.#parts = parts;
    const { members } = systemAt(parts.config, parts.system, null).system.pool;
    this.#team = 2 ** members.length - 1;
    this.#alone = 2 ** members.findIndex(({ alias }) => alias === parts.system.train.policy);
  }

  get tasks(): number {
    return this.#parts.rows.length;
  }

  /**
   * The coalitions around the policy, on the same prompts and with the same draws each time.
   *
   * @param limit how many of the tasks
   */
  async measure(
    { adapter }: ServedPolicy,
    limit: number,
    sampling: Task['sampling'],
    onProgress: (done: number) => void,
  ): Promise<Measured> {
    const masks = { team: this.#team, without: this.#team - this.#alone, alone: this.#alone };
    const { run } = this.#parts;
    const rows = this.#parts.rows.slice(0, limit);
    const used = Object.values(masks).filter((mask) => mask > 0);
    const results = await this.#sweep({ adapter, masks: used, run, rows, sampling, onProgress });
    return { results, masks };
  }

  /** The whole team on every task, with a release or with the configured model. */
  async teamRuns(release: Pick<Release, 'servedAs' | 'artifact'> | undefined): Promise<Map<string, TeamRun>> {
    const ends = new Map<string, { failed: boolean; latencyMs: number }>();
    const run: RunSystem = async (plan, task, options) => {
      const result = await this.#parts.run(plan, task, options);
      const { status, durationMs } = result.outcome;
      ends.set(plan.promptInstance, { failed: status !== 'ok', latencyMs: durationMs });
      return result;
    };
    const adapter = release ? { servedAs: release.servedAs, sha256: release.artifact.sha256 } : null;
    const masks = [this.#team];
    const results = await this.#sweep({ adapter, masks, run, rows: this.#parts.rows, sampling: {} });
    return new Map(
      results.flatMap(({ task, cluster, rewards }) => {
        const end = ends.get(instanceOf(task));
        return end ? [[task, { cluster, reward: rewards[this.#team] ?? null, ...end }] as const] : [];
      }),
    );
  }

  async #sweep({ adapter, masks, run, rows, sampling, onProgress }: SweepRequest): Promise<PromptResult[]> {
    const { config, signal } = this.#parts;
    const { catalog, system } = systemAt(config, this.#parts.system, adapter);
    const { members } = system.pool;
    const results: PromptResult[] = [];
    await sweep(rows, {
      run,
      verifiers,
      clock,
      masks,
      sampling,
      concurrency: this.#parts.system.train.concurrency,
      signal,
      planFor(row, mask) {
        const choices = { coalition: bitsOf(mask).flatMap((bit) => members[bit]?.alias ?? []) };
        const names = { seed: 'holdout', promptInstance: instanceOf(row.id), tenant: 'training' };
        return planOf({ catalog, maxStreamMs: UNLIMITED }, system, choices, { id: newId(), ...names });
      },
      onResult(result) {
        results.push(result);
        onProgress?.(results.length);
      },
    });
    return results;
  }
}
