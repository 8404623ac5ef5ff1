/**
 * What each step of a run did, a line a step, appended when it is done. With the shards of the groups it says where a
 * run that was cut off goes on.
 */
import { appendFileSync, mkdirSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import Type, { type Static } from 'typebox';
import { Compile } from 'typebox/compile';
import { Objective, type TrajectoryGroup } from '../contract/trajectory.ts';
import { momentsOf, variance } from '../scoring/statistics/moments.ts';

/** Rewards of the groups of one objective. */
const Rewards = Type.Object({
  objective: Objective,
  groups: Type.Integer({ minimum: 0 }),
  /** Mean over the groups of their mean reward; null when no rollout was valid. */
  mean: Type.Union([Type.Number(), Type.Null()]),
  /** Over groups; null below two. */
  standardError: Type.Union([Type.Number(), Type.Null()]),
});
export type Rewards = Static<typeof Rewards>;

export const CurvePoint = Type.Object({
  /** Batches so far, from 1. */
  round: Type.Integer({ minimum: 1 }),
  /** Optimiser steps so far: fewer than rounds where a batch had nothing to teach. */
  step: Type.Integer({ minimum: 0 }),
  /** Unix milliseconds at its end. */
  at: Type.Number(),
  rewards: Type.Array(Rewards),
  groups: Type.Integer({ minimum: 0 }),
  accepted: Type.Integer({ minimum: 0 }),
  /** How many groups were left out for each reason. */
  reasons: Type.Record(Type.String(), Type.Integer()),
  rollouts: Type.Integer({ minimum: 0 }),
  /** Tokens of the policy that were trained on. */
  tokens: Type.Integer({ minimum: 0 }),
  /** Between the trainer's and the fleet's log-probs, in nats a token; absent when a restart took the step. */
  gap: Type.Optional(Type.Number()),
  metrics: Type.Record(Type.String(), Type.Number()),
  /** Milliseconds. */
  rolloutMs: Type.Number(),
  trainMs: Type.Number(),
});
export type CurvePoint = Static<typeof CurvePoint>;

const point = Compile(CurvePoint);

/** What the groups of a batch say, before anything is learned from them. */
export type BatchSummary = Pick<
  CurvePoint,
  'rewards' | 'groups' | 'accepted' | 'reasons' | 'rollouts' | 'tokens'
>;

export function summaryOf(groups: readonly TrajectoryGroup[]): BatchSummary {
  const accepted = groups.filter(({ filter }) => filter.accepted);
  const reasons: Record<string, number> = {};
  for (const reason of groups.flatMap(({ filter }) => filter.reasons)) {
    reasons[reason] = (reasons[reason] ?? 0) + 1;
  }
  const objectives = [...new Set(groups.map(({ objective }) => objective))].toSorted();
  return {
    rewards: objectives.map((objective) => rewardsOf(objective, groups)),
    groups: groups.length,
    accepted: accepted.length,
    reasons,
    rollouts: groups.reduce((sum, { rollouts }) => sum + rollouts.length, 0),
    tokens: accepted
      .flatMap(({ rollouts }) => rollouts)
      .filter(({ advantage }) => advantage !== null && advantage !== 0)
      .flatMap(({ turns }) => turns)
      .reduce((sum, turn) => sum + (turn.trainable ? (turn.responseTokenIds?.length ?? 0) : 0), 0),
  };
}

function rewardsOf(objective: Objective, all: readonly TrajectoryGroup[]): Rewards {
  const groups = all.filter((group) => group.objective === objective && group.baseline.valid > 0);
  const moments = momentsOf(groups.map(({ baseline }) => baseline.mean));
  const { n, mean } = moments;
  return {
    objective,
    groups: n,
    mean: n > 0 ? mean : null,
    standardError: n > 1 ? Math.sqrt(variance(moments) / n) : null,
  };
}

export class Curve {
  readonly #file: string;
  readonly #points: CurvePoint[];

  /** Opens or continues a curve; a line that a crash cut off is written again. */
  constructor(file: string) {
    this.#file = file;
    mkdirSync(dirname(file), { recursive: true });
    this.#points = readPoints(file);
  }

  get points(): readonly CurvePoint[] {
    return this.#points;
  }

  append(next: CurvePoint): void {
    appendFileSync(this.#file, `${JSON.stringify(next)}\n`);
    this.#points.push(next);
  }
}

function readPoints(file: string): CurvePoint[] {
  return readText(file)
    .split('\n')
    .map(parse)
    .filter((value) => point.Check(value));
}

function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return '';
    throw error;
  }
}

function parse(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}
