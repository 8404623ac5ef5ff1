/**
 * The smallest case in which training for the team and training alone part ways: one policy with five behaviours, two
 * fixed partners, two kinds of task. Everything has an exact value, by enumeration. SIMULATED, and built so that the
 * two objectives disagree: it shows that the loop raises what it is asked to raise, and nothing about language models.
 *
 * The policy answers, reads its partners' answers once, may revise, and its last answer is the system's. Behaviours
 * differ in how often they are right alone, by kind, and in how they take what they read: `up` is the probability
 * that a wrong one becomes right when all partners are, `down` that a right one becomes wrong when none is.
 */
import { uniformFloat64 } from 'pure-rand/distribution/uniformFloat64';
import { xoroshiro128plus } from 'pure-rand/generator/xoroshiro128plus';
import type { AdvantageKind } from '../../src/contract/trajectory.ts';
import { advantagesOf } from '../../src/policy/advantages.ts';

type Kind = 0 | 1;
const KINDS: readonly Kind[] = [0, 1];

/** Probability of each partner to be right, by kind. */
const PARTNERS = [
  [0.8, 0.35],
  [0.75, 0.3],
] as const;

export const BEHAVIOURS = [
  { name: 'A-expert', right: [0.92, 0.3], up: 0.3, down: 0.1 },
  { name: 'B-expert', right: [0.4, 0.78], up: 0.3, down: 0.1 },
  { name: 'gullible', right: [0.6, 0.6], up: 0.9, down: 0.9 },
  { name: 'discerning', right: [0.6, 0.6], up: 0.85, down: 0.1 },
  { name: 'stubborn', right: [0.6, 0.6], up: 0, down: 0 },
] as const;

const N = BEHAVIOURS.length;

/** Whether each partner is right. */
type Shared = readonly [boolean, boolean];
const SHARED: readonly Shared[] = [
  [false, false],
  [false, true],
  [true, false],
  [true, true],
];

function sharedProbability(kind: Kind, shared: Shared): number {
  const odds = PARTNERS.map((right, index) => (shared[index] ? right[kind] : 1 - right[kind]));
  return odds.reduce((product, probability) => product * probability, 1);
}

/** Probability that the system is right, given the behaviour and what the partners said. */
function teamGiven(behaviour: number, kind: Kind, shared: Shared): number {
  const { right, up, down } = BEHAVIOURS[behaviour]!;
  const share = shared.filter((isRight) => isRight).length / shared.length;
  return right[kind] * (1 - down * (1 - share)) + (1 - right[kind]) * up * share;
}

export type Goal = 'team' | 'solo';

/** Exact value of a behaviour on one kind of task. */
export function valueOf(goal: Goal, behaviour: number, kind: Kind): number {
  if (goal === 'solo') return BEHAVIOURS[behaviour]!.right[kind];
  return SHARED.reduce(
    (sum, shared) => sum + sharedProbability(kind, shared) * teamGiven(behaviour, kind, shared),
    0,
  );
}

/** Exact value of a policy, over both kinds alike. */
export function valueOfPolicy(goal: Goal, policy: readonly number[]): number {
  return policy.reduce(
    (sum, probability, behaviour) =>
      sum +
      probability *
        KINDS.reduce<number>((mean, kind) => mean + valueOf(goal, behaviour, kind) / KINDS.length, 0),
    0,
  );
}

export function softmax(theta: readonly number[]): number[] {
  const top = Math.max(...theta);
  const exps = theta.map((logit) => Math.exp(logit - top));
  const sum = exps.reduce((a, b) => a + b, 0);
  return exps.map((exp) => exp / sum);
}

/** Exact gradient of a policy's value with respect to its logits: π(b)·(v(b) − v(π)). */
export function exactGradient(goal: Goal, policy: readonly number[]): number[] {
  const total = valueOfPolicy(goal, policy);
  return policy.map((probability, behaviour) => {
    const alone = Array.from({ length: N }, (_, other) => (other === behaviour ? 1 : 0));
    return probability * (valueOfPolicy(goal, alone) - total);
  });
}

/** The gradient that one group of rollouts gives: mean of A·∇log π(b), by the product's advantages. */
export function groupGradient(
  policy: readonly number[],
  rollouts: readonly { readonly behaviour: number; readonly reward: number }[],
  kind: AdvantageKind,
): number[] {
  const { advantages } = advantagesOf(
    rollouts.map(({ reward }) => reward),
    kind,
  );
  const gradient = policy.map(() => 0);
  for (const [index, { behaviour }] of rollouts.entries()) {
    const share = (advantages[index] ?? 0) / rollouts.length;
    for (let other = 0; other < N; other++) {
      gradient[other]! += share * ((other === behaviour ? 1 : 0) - policy[other]!);
    }
  }
  return gradient;
}

/** One thing that can happen, and how likely it is. */
interface Case {
  readonly probability: number;
  readonly behaviour: number;
  readonly reward: number;
}

/** What one rollout can do, once the partners have spoken. */
function casesOf(policy: readonly number[], kind: Kind, shared: Shared): Case[] {
  return policy.flatMap((probability, behaviour) => {
    const right = teamGiven(behaviour, kind, shared);
    return [
      { probability: probability * right, behaviour, reward: 1 },
      { probability: probability * (1 - right), behaviour, reward: 0 },
    ];
  });
}

/**
 * Mean and second moment of the gradient of a group of two, by enumeration of everything that can happen.
 *
 * @param isShared whether both rollouts hear the same partners, or each its own
 */
export function enumerateGroups(policy: readonly number[], kind: AdvantageKind, isShared: boolean) {
  const mean = policy.map(() => 0);
  let square = 0;
  for (const task of KINDS) {
    const worlds = SHARED.map((shared) => ({
      probability: sharedProbability(task, shared),
      cases: casesOf(policy, task, shared),
    }));
    for (const [i, first] of worlds.entries()) {
      for (const [j, second] of worlds.entries()) {
        if (isShared && i !== j) continue;
        const world = (first.probability * (isShared ? 1 : second.probability)) / KINDS.length;
        for (const one of first.cases) {
          for (const other of second.cases) {
            const probability = world * one.probability * other.probability;
            for (const [index, part] of groupGradient(policy, [one, other], kind).entries()) {
              mean[index]! += probability * part;
              square += probability * part * part;
            }
          }
        }
      }
    }
  }
  return { mean, variance: square - mean.reduce((sum, part) => sum + part * part, 0) };
}

export interface TabularTraining {
  readonly goal: Goal;
  readonly advantage: AdvantageKind;
  readonly steps: number;
  readonly rate: number;
  readonly groupSize: number;
  /** Whether the partners of a group speak once, as the collector does it, or in every rollout. */
  readonly shares: boolean;
  readonly seed: number;
}

/** Trains from the uniform policy by groups of sampled rollouts; the policy that comes out. */
export function trainTabular({
  goal,
  advantage,
  steps,
  rate,
  groupSize,
  shares,
  seed,
}: TabularTraining): number[] {
  const generator = xoroshiro128plus(seed);
  const draw = () => uniformFloat64(generator);
  const theta = BEHAVIOURS.map(() => 0);
  for (let step = 0; step < steps; step++) {
    const policy = softmax(theta);
    const kind: Kind = draw() < 0.5 ? 0 : 1;
    const speak = (): Shared => [draw() < PARTNERS[0][kind], draw() < PARTNERS[1][kind]];
    const spoken = speak();
    const rollouts = Array.from({ length: groupSize }, () => {
      const behaviour = pick(policy, draw());
      const right =
        goal === 'solo'
          ? BEHAVIOURS[behaviour]!.right[kind]
          : teamGiven(behaviour, kind, shares ? spoken : speak());
      return { behaviour, reward: draw() < right ? 1 : 0 };
    });
    for (const [index, part] of groupGradient(policy, rollouts, advantage).entries())
      theta[index]! += rate * part;
  }
  return softmax(theta);
}

function pick(policy: readonly number[], at: number): number {
  let left = at;
  for (const [behaviour, probability] of policy.entries()) {
    left -= probability;
    if (left < 0) return behaviour;
  }
  return policy.length - 1;
}
