/** Everything that trains one system's policy, built from the configuration: for `train` and for `learn`. */
import { hostname } from 'node:os';
import { join, resolve } from 'node:path';
import type { Config } from '../../contract/config.ts';
import { ConsortError } from '../../contract/errors.ts';
import type { Store } from '../../contract/store.ts';
import type { TaskRow } from '../../contract/task.ts';
import type { TrainConfig, TrainerConfig } from '../../contract/train-config.ts';
import type { TrajectoryGroup } from '../../contract/trajectory.ts';
import { planOf } from '../../gateway/resolve.ts';
import { keepLease, type KeptLease } from '../../policy/keep-lease.ts';
import { Learner, type GroupOrder } from '../../policy/learner.ts';
import { PromptOrder } from '../../policy/prompt-order.ts';
import { ReleaseController } from '../../policy/release/controller.ts';
import { evidenceOf } from '../../policy/release/evidence.ts';
import { collectGroup } from '../../policy/rollout-groups.ts';
import { Sampler, type ServedPolicy } from '../../policy/sampler.ts';
import { fleets } from '../../policy/serving/index.ts';
import type { ServingFleet } from '../../policy/serving/fleet.ts';
import { lastShard } from '../../policy/shards.ts';
import { trainers } from '../../policy/trainers/index.ts';
import type { TrainerPort } from '../../policy/trainers/trainer.ts';
import { judge } from '../../scoring/judge.ts';
import { verifiers } from '../../scoring/rewards/index.ts';
import { readTaskFile, taskOfRow } from '../../scoring/sweep/task-file.ts';
import { openForEvaluation } from '../evaluation.ts';
import { clock, newId } from '../natives.ts';
import type { RunningSystem } from '../system.ts';
import { Holdout } from './holdout.ts';
import { assertApart, systemAt, UNLIMITED, type TrainedSystem } from './trained-system.ts';

/** Two containers can have one name, and each a process 1. */
const HOLDER = `${hostname()}/${process.pid}/${newId()}`;
/** Prompts that a version is probed with. */
const PROBES = 8;

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
  readonly holdout: Holdout;
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
    const rows = readTaskFile(train.holdout);
    assertApart(this.prompts, rows, train);
    this.directory = join(trainer.directory, hooks.run);
    this.#running = openForEvaluation(config, hooks.secret);
    const holdout = new Holdout({ config, system, rows, run: this.#running.run, signal: hooks.signal });
    this.holdout = holdout;
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
        evidenceOf(...(await Promise.all([holdout.teamRuns(live), holdout.teamRuns(candidate)]))),
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
    return systemAt(this.#config, this.system, null).system.simulated;
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

  async close(): Promise<void> {
    await this.#sampler.close().catch(() => undefined);
    await this.trainer.close();
    await this.#lease?.close().catch(() => undefined);
    await this.#fleet.close();
    await this.#running.close();
  }

  async #collect({ item, visit, objective, served }: GroupOrder<TaskRow>): Promise<TrajectoryGroup> {
    const { train } = this.system;
    const { signal } = this.#hooks;
    const { catalog, system } = systemAt(this.#config, this.system, served.adapter);
    const base = this.#config.models.find((model) => model.id === train.policy);
    const seed = newId();
    const identity = { id: seed, seed, promptInstance: item.id, tenant: 'training' };
    return collectGroup(
      {
        plan: planOf({ catalog, maxStreamMs: UNLIMITED }, system, {}, identity),
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
}

function trainerOf(config: Config, train: TrainConfig): TrainerConfig {
  const trainer = config.trainers.find(({ id }) => id === train.trainer);
  if (!trainer) throw new TypeError(`unchecked trainer ${train.trainer}`);
  return trainer;
}

function openTrainer(
  { kind, baseUrl, apiKey, archiveHosts, directory }: TrainerConfig,
  { signal, patienceMs }: TrainingHooks,
): TrainerPort {
  const found = trainers.find((one) => one.kind === kind);
  if (!found) throw new TypeError(`unchecked trainer kind ${kind}`);
  const timeouts = { submitMs: patienceMs };
  const key = apiKey !== undefined && { apiKey };
  return found.open({ baseUrl, directory, archiveHosts, signal, timeouts, ...key });
}

function probesOf(groups: readonly TrajectoryGroup[]): number[][] {
  const turns = groups.flatMap(({ rollouts }) => rollouts.slice(0, 1).flatMap(({ turns: all }) => all));
  return turns
    .filter(({ trainable }) => trainable)
    .slice(0, PROBES)
    .map(({ promptTokenIds = [], responseTokenIds = [] }) => [...promptTokenIds, ...responseTokenIds]);
}
