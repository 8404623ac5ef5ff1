/** The metrics of the learner, a process of its own. */
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { watchProcess } from './process-metrics.ts';

/** What one batch of a policy did. */
export interface BatchDone {
  readonly step: number;
  /** Unix milliseconds at its end. */
  readonly at: number;
  readonly accepted: number;
  readonly reasons: Readonly<Record<string, number>>;
  readonly rewards: readonly { readonly objective: string; readonly mean: number | null }[];
  readonly tokens: number;
  readonly gap?: number;
  readonly rolloutMs: number;
  readonly trainMs: number;
}

const SECONDS = [0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800];

export class LearnerMetrics {
  readonly #groups: Counter;
  readonly #tokens: Counter;
  readonly #seconds: Histogram;
  readonly #reward: Gauge;
  readonly #step: Gauge;
  readonly #gap: Gauge;
  readonly #seen: Gauge;
  readonly #moves: Counter;
  readonly #errors: Counter;

  /** A registry with the default metrics of a process. */
  static registry(version: string): Registry {
    const registry = new Registry();
    watchProcess(registry, 'learner', version);
    return registry;
  }

  constructor(registry: Registry) {
    const registers = [registry];
    this.#groups = new Counter({
      name: 'consort_policy_groups_total',
      help: 'Rollout groups of a policy, by what became of them: accepted, or why they were left out.',
      labelNames: ['policy', 'result'],
      registers,
    });
    this.#tokens = new Counter({
      name: 'consort_policy_trained_tokens_total',
      help: 'Tokens of a policy that it was trained on.',
      labelNames: ['policy'],
      registers,
    });
    this.#seconds = new Histogram({
      name: 'consort_policy_batch_seconds',
      help: 'Time of one batch, by phase.',
      labelNames: ['policy', 'phase'],
      buckets: SECONDS,
      registers,
    });
    const gauge = (name: string, help: string, ...more: string[]) =>
      new Gauge({ name, help, labelNames: ['policy', ...more], registers });
    this.#reward = gauge('consort_policy_reward', 'Mean reward of the last batch.', 'objective');
    this.#step = gauge('consort_policy_step', 'Optimiser steps taken.');
    this.#gap = gauge(
      'consort_policy_trainer_gap_nats',
      'Mean difference of the log-probs of trainer and fleet on the last batch, a token.',
    );
    this.#seen = gauge(
      'consort_policy_trainer_last_seen_timestamp_seconds',
      'When the trainer last took a batch; at first, when the learner started.',
    );
    this.#moves = new Counter({
      name: 'consort_policy_release_moves_total',
      help: 'Releases that this process has taken to a stage.',
      labelNames: ['policy', 'stage'],
      registers,
    });
    this.#errors = new Counter({
      name: 'consort_policy_learner_errors_total',
      help: 'Rounds that ended in an error; each is tried again.',
      labelNames: ['policy', 'code'],
      registers,
    });
  }

  /** Knows the policy from the start; what was never seen is as old as the process. @param now Unix milliseconds */
  announce(policy: string, now: number): void {
    this.#groups.labels({ policy, result: 'accepted' }).inc(0);
    this.#seen.labels({ policy }).set(now / 1000);
    for (const stage of ['live', 'rejected', 'retired']) this.#moves.labels({ policy, stage }).inc(0);
  }

  batch(policy: string, done: BatchDone): void {
    this.#groups.labels({ policy, result: 'accepted' }).inc(done.accepted);
    for (const [result, count] of Object.entries(done.reasons)) {
      this.#groups.labels({ policy, result }).inc(count);
    }
    this.#tokens.labels({ policy }).inc(done.tokens);
    this.#seconds.labels({ policy, phase: 'rollout' }).observe(done.rolloutMs / 1000);
    this.#seconds.labels({ policy, phase: 'train' }).observe(done.trainMs / 1000);
    for (const { objective, mean } of done.rewards) {
      if (mean !== null) this.#reward.labels({ policy, objective }).set(mean);
    }
    this.#step.labels({ policy }).set(done.step);
    if (done.gap !== undefined) this.#gap.labels({ policy }).set(done.gap);
    if (done.accepted > 0) this.#seen.labels({ policy }).set(done.at / 1000);
  }

  moved(policy: string, stage: string): void {
    this.#moves.labels({ policy, stage }).inc();
  }

  failed(policy: string, code: string): void {
    this.#errors.labels({ policy, code }).inc();
  }
}
