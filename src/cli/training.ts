/** Everything that trains one system's policy, built from the configuration: for `train` and for `learn`. */
import { hostname } from 'node:os';
import { join, resolve } from 'node:path';
import type { RunSystem } from '../contract/capabilities.ts';
import type { Config, SystemConfig } from '../contract/config.ts';
import { ConsortError } from '../contract/errors.ts';
import type { Store } from '../contract/store.ts';
import type { Task, TaskRow } from '../contract/task.ts';
import type { TrainConfig, TrainerConfig } from '../contract/train-config.ts';
import type { TrajectoryGroup } from '../contract/trajectory.ts';
import { SYSTEM_PREFIX, type Catalog, type System } from '../gateway/catalog.ts';
import { configAt } from '../gateway/generations.ts';
import { planOf } from '../gateway/resolve.ts';
import { keepLease, type KeptLease } from '../policy/keep-lease.ts';
import { Learner, type GroupOrder } from '../policy/learner.ts';
import { PromptOrder } from '../policy/prompt-order.ts';
import { ReleaseController } from '../policy/release/controller.ts';
import { evidenceOf, type TeamRun } from '../policy/release/evidence.ts';
import { collectGroup } from '../policy/rollout-groups.ts';
import { Sampler, type ServedPolicy } from '../policy/sampler.ts';
import { fleets } from '../policy/serving/index.ts';
import type { ServingFleet } from '../policy/serving/fleet.ts';
import { lastShard } from '../policy/shards.ts';
import { TinkerTrainer } from '../policy/trainers/tinker.ts';
import type { TrainerPort } from '../policy/trainers/trainer.ts';
import { judge } from '../scoring/judge.ts';
import { verifiers } from '../scoring/rewards/index.ts';
import type { PromptResult } from '../scoring/sweep/journal.ts';
import { sweep } from '../scoring/sweep/sweep.ts';
import { readTaskFile, taskOfRow } from '../scoring/sweep/task-file.ts';
import { openForEvaluation } from './evaluation.ts';
import { clock, newId } from './natives.ts';
import { catalogOf, type RunningSystem } from './system.ts';

/** Two containers can have one name, and each a process 1. */
const HOLDER = `${hostname()}/${process.pid}/${newId()}`;
/** Plans of evaluations end with their prompt, not with a stream. */
const UNLIMITED = Number.MAX_SAFE_INTEGER;
/** Prompts that a version is probed with. */
const PROBES = 8;

export type TrainedSystem = SystemConfig & { readonly train: TrainConfig };

/** What the coalitions that matter to a policy achieve, by prompt: the team, the team without it, it alone. */
export interface Measured {
  readonly results: readonly PromptResult[];
  readonly masks: { readonly team: number; readonly without: number; readonly alone: number };
}

/** @throws `usage` when the system does not train */
export function trainedSystem(config: Config, id: string): TrainedSystem {
  const system = config.systems.find((one) => one.id === id);
  if (system?.train) return { ...system, train: system.train };
  const trained = config.systems.filter(({ train }) => train).map((one) => one.id);
  const names = trained.join(', ') || 'none; docs/training.md shows the fields';
  throw new ConsortError('usage', [`system ${id} has no train section; those that do: ${names}`]);
}

export interface TrainingHooks {
  readonly store: Store;
  readonly secret: string | undefined;
  readonly signal: AbortSignal;
  /** Name of the run: letters, digits, `-` and `_`. */
  readonly run: string;
  /** How long the trainer may be away before that is an error, in milliseconds. */
  readonly patienceMs: number;
}

export class Training {
  readonly system: TrainedSystem;
  readonly prompts: readonly TaskRow[];
  readonly holdout: readonly TaskRow[];
  /** Holds the run's journal, groups, curve and report. */
  readonly directory: string;
  readonly trainer: TrainerPort;
  readonly controller: ReleaseController;
  readonly #config: Config;
  readonly #hooks: TrainingHooks;
  readonly #running: RunningSystem;
  readonly #fleet: ServingFleet;
  readonly #sampler: Sampler;
  #lease: KeptLease | undefined;

  constructor(config: Config, system: TrainedSystem, hooks: TrainingHooks) {
    const { train } = system;
    const trainer = trainerOf(config, train);
    const model = config.models.find(({ id }) => id === train.policy);
    if (!model?.hosting) throw new TypeError(`unchecked policy ${train.policy}`);
    this.#config = config;
    this.#hooks = hooks;
    this.system = system;
    this.prompts = readTaskFile(train.prompts);
    this.holdout = readTaskFile(train.holdout);
    assertApart(this.prompts, this.holdout, train);
    this.directory = join(trainer.directory, hooks.run);
    this.#running = openForEvaluation(config, hooks.secret);
    const { hosting, apiKey } = model;
    const kind = fleets.find((one) => one.kind === hosting.fleet);
    if (!kind) throw new TypeError(`unchecked fleet ${hosting.fleet}`);
    this.#fleet = kind.open({
      replicas: hosting.replicas,
      base: hosting.base ?? model.model ?? model.id,
      ...(apiKey !== undefined && { apiKey }),
    });
    this.trainer = openTrainer(trainer, hooks);
    const directory = resolve(hosting.adapters);
    this.#sampler = new Sampler({ trainer: this.trainer, fleet: this.#fleet, directory, run: hooks.run });
    this.controller = new ReleaseController({
      policy: train.policy,
      releases: hooks.store.releases,
      fleet: this.#fleet,
      directory,
      maxRank: hosting.maxRank,
      // Side by side, so that a machine that is busy for a while does not make one of them the slower.
      compare: async (live, candidate) =>
        evidenceOf(...(await Promise.all([this.#teamRuns(live), this.#teamRuns(candidate)]))),
      gate: train.gate,
      now: () => clock.now(),
      graceMs: config.server.maxStreamSeconds * 1000,
    });
  }

  /** Takes the run; false while another process has it. @throws `store_unavailable` */
  async hold(): Promise<boolean> {
    const { run, store } = this.#hooks;
    this.#lease ??= await keepLease(store.leases, `train/${run}`, HOLDER, clock);
    return this.#lease !== undefined;
  }

  /**
   * The run, begun or taken up where it was.
   *
   * @throws `train_busy` while another process holds it, `store_unavailable`, `trainer_*`
   */
  async open(): Promise<Learner<TaskRow>> {
    const { run, signal } = this.#hooks;
    const { train } = this.system;
    await this.hold();
    if (!this.#lease) throw new ConsortError('train_busy', [run]);
    const { baseModel } = trainerOf(this.#config, train);
    return Learner.open({
      config: train,
      trainer: this.trainer,
      run: { run, baseModel, rank: train.rank, seed: train.seed },
      lease: this.#lease,
      sampler: this.#sampler,
      prompts: new PromptOrder(this.prompts, train.seed),
      collect: (order) => this.#collect(order),
      directory: this.directory,
      clock,
      signal,
    });
  }

  get simulated(): boolean {
    return systemOf(this.#catalogAt(null), this.system.id).simulated;
  }

  /** The newest weights where they can be asked. */
  serve(step: number): Promise<ServedPolicy> {
    return this.#sampler.at(step);
  }

  /**
   * The weights after `step` as a release. One run exports a policy at a time: two would give their files one number.
   *
   * @throws `train_busy` while another run does, `trainer_*`, `store_unavailable`
   */
  async export(step: number) {
    const { run, store } = this.#hooks;
    const name = `export/${this.system.train.policy}`;
    const lease = await keepLease(store.leases, name, HOLDER, clock);
    if (!lease) throw new ConsortError('train_busy', [name]);
    try {
      const probes = probesOf(await lastShard(join(this.directory, 'groups')));
      return await this.controller.export({ trainer: this.trainer, run, step, probes });
    } finally {
      await lease.close();
    }
  }

  /** The coalitions around the policy on the held-out tasks, on the same prompts and with the same draws each time. */
  async measure(
    served: ServedPolicy,
    limit: number,
    sampling: Task['sampling'],
    onProgress: (done: number) => void,
  ): Promise<Measured> {
    const { members } = systemOf(catalogOf(this.#config), this.system.id).pool;
    const position = members.findIndex(({ alias }) => alias === this.system.train.policy);
    const team = 2 ** members.length - 1;
    const alone = 2 ** position;
    const masks = { team, without: team - alone, alone };
    const used = Object.values(masks).filter((mask) => mask > 0);
    const results = await this.#sweep(served.adapter, used, this.#running.run, sampling, limit, onProgress);
    return { results, masks };
  }

  async close(): Promise<void> {
    await this.#sampler.close().catch(() => undefined);
    await this.trainer.close();
    await this.#lease?.close().catch(() => undefined);
    await this.#fleet.close();
    await this.#running.close();
  }

  async #collect({ item, visit, objective, served }: GroupOrder<TaskRow>): Promise<TrajectoryGroup> {
    const { train, id } = this.system;
    const { signal } = this.#hooks;
    const catalog = this.#catalogAt(served.adapter);
    const base = this.#config.models.find((model) => model.id === train.policy);
    const seed = newId();
    const identity = { id: seed, seed, promptInstance: item.id, tenant: 'training' };
    return collectGroup(
      {
        plan: planOf({ catalog, maxStreamMs: UNLIMITED }, systemOf(catalog, id), {}, identity),
        task: taskOfRow(item, {}),
        taskId: item.id,
        objective,
        policy: {
          alias: train.policy,
          baseModel: base?.model ?? train.policy,
          adapter: served.adapter?.servedAs ?? null,
          version: served.version,
        },
        groupSize: train.group,
        advantage: train.advantage,
        visit,
        maxTokens: train.maxTokens,
      },
      {
        run: this.#running.run,
        grade: (outcome) => judge(outcome, verifiers, clock.now()),
        clock,
        newId,
        signal,
      },
    );
  }

  /** The whole team on the held-out tasks, with a release or with the configured model. */
  async #teamRuns(release: { servedAs: string; artifact: { sha256: string } } | undefined) {
    const runs = new Map<string, TeamRun>();
    const ends = new Map<string, { failed: boolean; latencyMs: number }>();
    const watched: RunSystem = async (plan, task, options) => {
      const result = await this.#running.run(plan, task, options);
      const { status, durationMs } = result.outcome;
      ends.set(plan.promptInstance, { failed: status !== 'ok', latencyMs: durationMs });
      return result;
    };
    const adapter = release ? { servedAs: release.servedAs, sha256: release.artifact.sha256 } : null;
    const { members } = systemOf(catalogOf(this.#config), this.system.id).pool;
    const team = 2 ** members.length - 1;
    const results = await this.#sweep(adapter, [team], watched, {}, this.holdout.length, () => undefined);
    for (const { task, cluster, rewards } of results) {
      const end = ends.get(instanceOf(task));
      if (end) runs.set(task, { cluster, reward: rewards[team] ?? null, ...end });
    }
    return runs;
  }

  async #sweep(
    adapter: ServedPolicy['adapter'],
    masks: readonly number[],
    run: RunSystem,
    sampling: Task['sampling'],
    limit: number,
    onProgress: (done: number) => void,
  ): Promise<PromptResult[]> {
    const catalog = this.#catalogAt(adapter);
    const system = systemOf(catalog, this.system.id);
    const { members } = system.pool;
    const results: PromptResult[] = [];
    await sweep(this.holdout.slice(0, limit), {
      run,
      verifiers,
      clock,
      masks,
      sampling,
      concurrency: this.system.train.concurrency,
      signal: this.#hooks.signal,
      planFor(row, mask) {
        const coalition = members.filter((_, bit) => Math.floor(mask / 2 ** bit) % 2 === 1);
        const choices = { coalition: coalition.map(({ alias }) => alias) };
        const identity = {
          id: newId(),
          seed: 'holdout',
          promptInstance: instanceOf(row.id),
          tenant: 'training',
        };
        return planOf({ catalog, maxStreamMs: UNLIMITED }, system, choices, identity);
      },
      onResult(result) {
        results.push(result);
        onProgress(results.length);
      },
    });
    return results;
  }

  #catalogAt(adapter: ServedPolicy['adapter']): Catalog {
    if (!adapter) return catalogOf(this.#config);
    const { servedAs, sha256 } = adapter;
    const version = { servedAs, version: 0, artifact: { sha256 } };
    return catalogOf(configAt(this.#config, new Map([[this.system.train.policy, version]])));
  }
}

/** One instance a prompt, so that all versions meet the same seats and draws. */
function instanceOf(task: string): string {
  return `holdout/${task}`;
}

function systemOf({ systems }: Catalog, id: string): System {
  const system = systems.get(SYSTEM_PREFIX + id);
  if (!system) throw new TypeError(`no system ${id}`);
  return system;
}

function trainerOf(config: Config, train: TrainConfig): TrainerConfig {
  const trainer = config.trainers.find(({ id }) => id === train.trainer);
  if (!trainer) throw new TypeError(`unchecked trainer ${train.trainer}`);
  return trainer;
}

function openTrainer(
  { baseUrl, apiKey, archiveHosts, directory }: TrainerConfig,
  { signal, patienceMs }: TrainingHooks,
): TrainerPort {
  const timeouts = { submitMs: patienceMs };
  const key = apiKey !== undefined && { apiKey };
  return new TinkerTrainer({ baseUrl, directory, archiveHosts, signal, timeouts, ...key });
}

/** A gate that looks at what was trained on would promote whatever was learned by heart. */
function assertApart(prompts: readonly TaskRow[], holdout: readonly TaskRow[], train: TrainConfig): void {
  const nameOf = ({ cluster, id }: TaskRow) => cluster ?? id;
  const trained = new Set(prompts.map(nameOf));
  const both = holdout.find((row) => trained.has(nameOf(row)));
  if (both) {
    const wrong = `${nameOf(both)} is also in ${train.prompts}`;
    throw new ConsortError('tasks_invalid', [train.holdout, both.id, wrong]);
  }
}

function probesOf(groups: readonly TrajectoryGroup[]): number[][] {
  const turns = groups.flatMap(({ rollouts }) => rollouts.slice(0, 1).flatMap(({ turns: all }) => all));
  return turns
    .filter(({ trainable }) => trainable)
    .slice(0, PROBES)
    .map(({ promptTokenIds = [], responseTokenIds = [] }) => [...promptTokenIds, ...responseTokenIds]);
}
