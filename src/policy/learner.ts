/**
 * One training run, batch by batch: draw prompts, roll the whole live system out with the newest weights, keep the
 * groups, hand them to the trainer, take a step. A batch is on the disk before the trainer hears of it, and the trainer
 * journals what it took: a run that is cut off anywhere goes on with the same batch, and no step is taken twice.
 */
import { join } from 'node:path';
import type { Clock } from '../contract/capabilities.ts';
import { ConsortError } from '../contract/errors.ts';
import type { TrainConfig } from '../contract/train-config.ts';
import type { Objective, TrajectoryGroup } from '../contract/trajectory.ts';
import { Curve, summaryOf, type CurvePoint } from './curve.ts';
import { objectiveAt } from './objectives.ts';
import type { PromptOrder } from './prompt-order.ts';
import type { Sampler, ServedPolicy } from './sampler.ts';
import { lastShard, readManifest, writeShard } from './shards.ts';
import type { RunOptions, RunState, TrainerPort, WriterLease } from './trainers/trainer.ts';

/** Steps between two saves of weights and optimiser: what a restarted trainer has to be told again at most. */
const SAVE_EVERY = 10;
/** Batches in a row of which nothing can be learned, after which a run is stopped. */
const MOST_EMPTY = 10;

export interface GroupOrder<T> {
  readonly item: T;
  readonly visit: number;
  readonly objective: Objective;
  readonly served: ServedPolicy;
}

export interface LearnerParts<T extends { readonly id: string }> {
  readonly config: Pick<
    TrainConfig,
    'objective' | 'batch' | 'waves' | 'maxTokens' | 'learningRate' | 'gradClipNorm' | 'concurrency'
  >;
  readonly trainer: TrainerPort;
  readonly run: RunOptions;
  readonly lease: WriterLease;
  readonly sampler: Pick<Sampler, 'at'>;
  readonly prompts: PromptOrder<T>;
  /** Rolls the system out on one prompt. */
  readonly collect: (order: GroupOrder<T>) => Promise<TrajectoryGroup>;
  /** Where groups and curve are kept. */
  readonly directory: string;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

export class Learner<T extends { readonly id: string }> {
  readonly #parts: LearnerParts<T>;
  readonly #curve: Curve;
  readonly #shards: string;
  #step: number;

  private constructor(parts: LearnerParts<T>, state: RunState) {
    this.#parts = parts;
    this.#curve = new Curve(join(parts.directory, 'curve.jsonl'));
    this.#shards = join(parts.directory, 'groups');
    this.#step = state.step;
  }

  /** Begins a run or takes it up again. @throws `trainer_*` */
  static async open<T extends { readonly id: string }>(parts: LearnerParts<T>): Promise<Learner<T>> {
    return new Learner(parts, await parts.trainer.ensureRun(parts.run, parts.lease));
  }

  get points(): readonly CurvePoint[] {
    return this.#curve.points;
  }

  /** Optimiser steps taken. */
  get step(): number {
    return this.#step;
  }

  /**
   * Takes the run to `rounds` batches in all, and saves it.
   *
   * @returns each new point of the curve; ends early when the signal says so
   * @throws `train_no_signal`, `trainer_*`, `serving_*`
   */
  async *advance(rounds: number): AsyncGenerator<CurvePoint, void, undefined> {
    const { trainer, signal } = this.#parts;
    while (this.points.length < rounds && !signal.aborted) {
      const batch = await this.#batch();
      if (!batch) return;
      const next = await this.#learn(batch);
      this.#curve.append(next);
      yield next;
      if (this.#step > 0 && this.#step % SAVE_EVERY === 0) await trainer.saveState();
      this.#assertSignal();
    }
    if (!signal.aborted && this.#step % SAVE_EVERY !== 0) await trainer.saveState();
  }

  /** The groups of the next round: those that a cut left behind, or new ones. Undefined when the signal stopped it. */
  async #batch(): Promise<{ readonly groups: readonly TrajectoryGroup[]; readonly ms: number } | undefined> {
    const { shards, groups: begun } = await readManifest(this.#shards);
    if (shards.length > this.points.length) return { groups: await lastShard(this.#shards), ms: 0 };
    const { clock, signal } = this.#parts;
    const startedAt = clock.elapsed();
    const groups = await this.#rollOut(begun);
    if (signal.aborted) return undefined;
    await writeShard(this.#shards, groups, clock.now());
    return { groups, ms: clock.elapsed() - startedAt };
  }

  /** @param begun how many groups came before */
  async #rollOut(begun: number): Promise<TrajectoryGroup[]> {
    const { config, sampler, signal } = this.#parts;
    const served = await sampler.at(this.#step);
    const groups: TrajectoryGroup[] = [];
    for (let wave = 0; wave < config.waves && !signal.aborted; wave++) {
      const accepted = groups.filter(({ filter }) => filter.accepted).length;
      const missing = config.batch - accepted;
      if (missing <= 0) break;
      groups.push(...(await this.#wave(begun + groups.length, missing, served)));
    }
    return groups;
  }

  async #wave(first: number, count: number, served: ServedPolicy): Promise<TrajectoryGroup[]> {
    const { config, prompts, collect, signal } = this.#parts;
    const groups: TrajectoryGroup[] = [];
    const waiting = Array.from({ length: count }, (_, offset) => first + offset).values();
    const worker = async () => {
      for (const index of waiting) {
        if (signal.aborted) return;
        const { item, visit } = prompts.at(index);
        groups.push(await collect({ item, visit, objective: objectiveAt(config.objective, index), served }));
      }
    };
    await Promise.all(Array.from({ length: Math.min(config.concurrency, count) }, worker));
    return groups;
  }

  async #learn({ groups, ms }: { readonly groups: readonly TrajectoryGroup[]; readonly ms: number }) {
    const { trainer, config, clock } = this.#parts;
    const startedAt = clock.elapsed();
    const accepted = groups.filter(({ filter }) => filter.accepted);
    const { learningRate, gradClipNorm, maxTokens } = config;
    const adam = { learningRate, ...(gradClipNorm > 0 && { gradClipNorm }) };
    const submission =
      accepted.length > 0
        ? await trainer.submitGroups({ groups: accepted, lengthScale: maxTokens, adam })
        : undefined;
    const done = submission && (await trainer.step());
    if (done) this.#step = done.step;
    return {
      round: this.points.length + 1,
      step: this.#step,
      at: clock.now(),
      ...summaryOf(groups),
      ...(submission && { gap: submission.gap.mean }),
      metrics: done?.metrics ?? {},
      rolloutMs: ms,
      trainMs: clock.elapsed() - startedAt,
    };
  }

  #assertSignal(): void {
    const last = this.points.slice(-MOST_EMPTY);
    if (last.length < MOST_EMPTY || last.some(({ accepted }) => accepted > 0)) return;
    const reasons = [...new Set(last.flatMap((one) => Object.keys(one.reasons)))].join(', ');
    throw new ConsortError('train_no_signal', [this.#parts.run.run, MOST_EMPTY, reasons]);
  }
}
