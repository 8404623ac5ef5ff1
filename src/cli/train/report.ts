/** What a training run came to: the curve, and the coalitions around the policy before and after, on the same tasks. */
import type { TrainConfig } from '../../contract/train-config.ts';
import type { CurvePoint } from '../../policy/curve.ts';
import { measureReal, type Measured as Estimated } from '../../scoring/estimators/measured.ts';
import type { PromptResult } from '../../scoring/sweep/journal.ts';
import { clusteredMeans } from '../../scoring/statistics/clustered-means.ts';
import type { Measured } from '../training/holdout.ts';

export type Quantity = Pick<Estimated, 'value' | 'standardError' | 'interval'>;

/** One number before and after, and their paired difference. */
export interface Change {
  readonly before: Quantity;
  readonly after: Quantity;
  readonly change: Quantity;
}

export interface TrainReport {
  readonly run: string;
  readonly system: string;
  readonly policy: string;
  readonly objective: TrainConfig['objective'];
  readonly group: number;
  readonly batch: number;
  readonly seed: number;
  readonly learningRate: number;
  readonly rank: number;
  /** Optimiser steps. */
  readonly steps: number;
  readonly rollouts: number;
  readonly simulated: boolean;
  /** Held-out tasks with a reward for every coalition, before and after. */
  readonly tasks: number;
  /** Of those held out, how many lack one and are left out. */
  readonly excluded: number;
  readonly level: number;
  /** v(N): the whole team. */
  readonly team: Change;
  /** v({policy}). */
  readonly alone: Change;
  /** v(N) − v(N∖{policy}); absent in a pool of one. */
  readonly leaveOneOut?: Change;
  readonly curve: readonly CurvePoint[];
}

const LEVEL = 0.95;

type Provenance = Omit<
  TrainReport,
  'steps' | 'rollouts' | 'tasks' | 'excluded' | 'level' | 'team' | 'alone' | 'leaveOneOut' | 'curve'
>;

/** @throws RangeError when no held-out task has a reward for every coalition */
export function trainReport(
  provenance: Provenance,
  curve: readonly CurvePoint[],
  before: Measured,
  after: Measured,
): TrainReport {
  const pairs = pairsOf(before, after);
  const { team, without, alone } = before.masks;
  const changeOf = (read: (result: PromptResult) => number) => changed(pairs, read);
  return {
    ...provenance,
    steps: curve.at(-1)?.step ?? 0,
    rollouts: curve.reduce((sum, { rollouts }) => sum + rollouts, 0),
    tasks: pairs.length,
    excluded: before.results.length - pairs.length,
    level: LEVEL,
    team: changeOf(({ rewards }) => rewards[team] ?? NaN),
    alone: changeOf(({ rewards }) => rewards[alone] ?? NaN),
    ...(without > 0 && {
      leaveOneOut: changeOf(({ rewards }) => (rewards[team] ?? NaN) - (rewards[without] ?? NaN)),
    }),
    curve,
  };
}

interface Pair {
  readonly before: PromptResult;
  readonly after: PromptResult;
}

function pairsOf(before: Measured, after: Measured): Pair[] {
  const later = new Map(after.results.map((result) => [result.task, result]));
  const isWhole = ({ rewards }: PromptResult) =>
    Object.values(before.masks).every((mask) => mask === 0 || typeof rewards[mask] === 'number');
  return before.results.flatMap((result) => {
    const match = later.get(result.task);
    return match && isWhole(result) && isWhole(match) ? [{ before: result, after: match }] : [];
  });
}

function changed(pairs: readonly Pair[], read: (result: PromptResult) => number): Change {
  const rows = pairs.map(({ before, after }) => [read(before), read(after), read(after) - read(before)]);
  const clusters = pairs.map(({ before }) => before.cluster);
  const found = clusteredMeans(rows, clusters);
  const quantity = (column: number): Quantity => {
    const { value, standardError, interval } = measureReal({
      value: found.means[column] ?? NaN,
      variance: found.covariance[column]?.[column] ?? NaN,
      clusters: found.clusters,
      n: found.n,
      range: [-2, 2],
      level: LEVEL,
    });
    return { value, standardError, interval };
  };
  return { before: quantity(0), after: quantity(1), change: quantity(2) };
}
