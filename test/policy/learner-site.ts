/** A learner on a fake trainer, whose groups are made up: each third has nothing to teach. */
import { join } from 'node:path';
import type { CurvePoint } from '../../src/policy/curve.ts';
import { advantagesOf } from '../../src/policy/advantages.ts';
import { Learner, type GroupOrder, type LearnerParts } from '../../src/policy/learner.ts';
import { PromptOrder } from '../../src/policy/prompt-order.ts';
import { TinkerTrainer } from '../../src/policy/trainers/tinker.ts';
import type { TrajectoryGroup } from '../../src/contract/trajectory.ts';
import { groupOf, LEASE, QUICK, RUN } from './trainers/site.ts';

export interface Item {
  readonly id: string;
  readonly index: number;
}

export const ITEMS: readonly Item[] = Array.from({ length: 9 }, (_, index) => ({ id: `p${index}`, index }));

/** The group of a prompt: its tokens tell prompt and visit, its id when it was collected. */
export function collected({ item, visit, objective, served }: GroupOrder<Item>): TrajectoryGroup {
  const hasSignal = item.index % 3 !== 0;
  const group = groupOf(100 * visit + item.index);
  const { advantages, mean, std, valid } = advantagesOf(hasSignal ? [1, 0] : [1, 1], 'centred');
  const rollouts = group.rollouts.map((rollout, index) => ({
    ...rollout,
    reward: hasSignal ? 1 - index : 1,
    advantage: advantages[index] ?? null,
    turns: rollout.turns.map((turn) => ({ ...turn, policyVersion: served.version })),
  }));
  return {
    ...group,
    objective,
    rollouts,
    policy: { ...group.policy, version: served.version, adapter: served.adapter?.servedAs ?? null },
    baseline: { kind: 'centred', mean, std, valid },
    filter: hasSignal ? { accepted: true, reasons: [] } : { accepted: false, reasons: ['rewards-equal'] },
  };
}

export const CONFIG: LearnerParts<Item>['config'] = {
  objective: 'mix',
  batch: 2,
  waves: 1,
  maxTokens: 2,
  learningRate: 0.001,
  gradClipNorm: 0,
  concurrency: 2,
};

export async function learnerOn(
  baseUrl: string,
  directory: string,
  more: Partial<LearnerParts<Item>> = {},
): Promise<{ learner: Learner<Item>; trainer: TinkerTrainer }> {
  const trainer = new TinkerTrainer({ baseUrl, directory, timeouts: QUICK });
  try {
    const learner = await Learner.open({
      config: CONFIG,
      trainer,
      run: RUN,
      lease: LEASE,
      sampler: { at: (step) => Promise.resolve({ version: step, adapter: null }) },
      prompts: new PromptOrder(ITEMS, 1),
      collect: (order) => Promise.resolve(collected(order)),
      directory: join(directory, RUN.run),
      clock: { now: () => 1_790_000_000_000, elapsed: () => performance.now() },
      signal: new AbortController().signal,
      ...more,
    });
    return { learner, trainer };
  } catch (error) {
    await trainer.close();
    throw error;
  }
}

export async function advanceTo(learner: Learner<Item>, rounds: number): Promise<CurvePoint[]> {
  const points: CurvePoint[] = [];
  for await (const point of learner.advance(rounds)) points.push(point);
  return points;
}
