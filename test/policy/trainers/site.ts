/** A place to train in: a fake server, a folder for the journal, groups to learn from. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';
import type { TrajectoryGroup } from '../../../src/contract/trajectory.ts';
import { TinkerTrainer, type TinkerOptions } from '../../../src/policy/trainers/tinker.ts';
import type { Batch, RunOptions, WriterLease } from '../../../src/policy/trainers/trainer.ts';
import { FakeTinker, type FakeOptions } from '../../support/tinker-server.ts';

export const RUN: RunOptions = { run: 'run-1', baseModel: 'tiny', rank: 2, seed: 7 };
export const LEASE: WriterLease = { token: 1, isHeld: () => true };

const SHA = '0'.repeat(64);

/** Two rollouts on one prompt: the first is better by `2 × advantage`. Token ids tell groups apart. */
export function groupOf(index: number, advantage = 0.5): TrajectoryGroup {
  const rollouts = [advantage, -advantage].map((value, rollout) => ({
    rolloutId: `g${index}-${rollout}`,
    index: rollout,
    status: 'ok' as const,
    reward: value > 0 ? 1 : 0,
    rewardSource: 'test',
    outcomeId: `o${index}-${rollout}`,
    advantage: value,
    turns: [
      {
        turnIndex: 0,
        parentTurns: [],
        slot: 'answer/policy',
        agentRole: 'answer',
        model: 'policy',
        isPolicy: true,
        trainable: true,
        policyVersion: 0,
        promptTokenIds: [100 + index, 5],
        responseTokenIds: [10 + rollout, 20 + rollout],
        responseLogprobs: [-6, -6],
        logprobsMode: 'raw' as const,
        sampling: { temperature: 1, topP: 1, constrained: false },
        finishReason: 'stop',
        textSha256: SHA,
        usage: { inputTokens: 2, outputTokens: 2 },
      },
    ],
  }));
  return {
    schema: 'crl.trajectory-group/1',
    groupId: `g${index}`,
    createdAt: '2026-12-01T00:00:00Z',
    tenant: 'test',
    taskId: `t${index}`,
    objective: 'team',
    promptHash: SHA,
    system: 's',
    protocol: { name: 'single', version: 1, revision: 'r' },
    policy: { alias: 'policy', baseModel: 'tiny', adapter: null, version: 0 },
    groupSize: 2,
    rollouts,
    baseline: { kind: 'centred', mean: 0.5, std: 0.5, valid: 2 },
    filter: { accepted: true, reasons: [] },
    simulated: true,
  };
}

export const batchOf = (...groups: TrajectoryGroup[]): Batch => ({
  groups,
  lengthScale: 2,
  adam: { learningRate: 0.001 },
});

export const QUICK = { pauseMs: 2, requestMs: 2_000, pollMs: 1_000, submitMs: 500, resultMs: 3_000 } as const;

export interface Site {
  readonly fake: FakeTinker;
  readonly directory: string;
  /** A trainer on the site's journal; closed with the test. */
  open(options?: Partial<TinkerOptions>): TinkerTrainer;
}

export async function siteOf(t: Test, options: Partial<FakeOptions> = {}): Promise<Site> {
  const fake = new FakeTinker(options);
  await fake.listen();
  const directory = mkdtempSync(join(tmpdir(), 'consort-trainer-'));
  const trainers: TinkerTrainer[] = [];
  t.teardown(async () => {
    await Promise.all(trainers.map((trainer) => trainer.close().catch(() => undefined)));
    await fake.kill();
    rmSync(directory, { recursive: true, force: true });
  });
  return {
    fake,
    directory,
    open(more = {}) {
      const trainer = new TinkerTrainer({ baseUrl: fake.url, directory, timeouts: QUICK, ...more });
      trainers.push(trainer);
      return trainer;
    },
  };
}

/** The requests of training, without polls, sessions and the self-test's scratch models. */
export function training(fake: FakeTinker): string[] {
  const numbered = ['forward', 'forward_backward', 'optim_step', 'load_weights', 'save_weights'];
  const scratch = new Set(fake.heard.filter(({ path }) => path === 'unload_model').map(({ model }) => model));
  return fake.heard
    .filter(({ path, model }) => numbered.some((name) => path.startsWith(name)) && !scratch.has(model))
    .map(({ path, seq }) => `${path} ${seq ?? ''}`.trim());
}
