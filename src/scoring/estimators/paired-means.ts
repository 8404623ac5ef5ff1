/** Two ways to do the same, each on the same closed sample of prompts: their means and the difference, with the doubt. */
import { clusteredMeans } from '../statistics/clustered-means.ts';
import type { Interval } from '../statistics/interval.ts';
import { measurePaired, measureReal, measureShare, type Measured, type SampleMean } from './measured.ts';

export interface RewardPair {
  /** Prompts of one conversation, template or user share a cluster. */
  readonly cluster: string;
  /** Rewards in [0, 1]. */
  readonly first: number;
  readonly second: number;
}

export interface PairedMeans {
  readonly first: Measured;
  readonly second: Measured;
  /** First less second. */
  readonly difference: Measured;
}

const REWARD: Interval = [0, 1];
const DIFFERENCE: Interval = [-1, 1];

/** RangeError without rows. */
export function pairedMeans(rows: readonly RewardPair[], level = 0.95): PairedMeans {
  const values = rows.map(({ first, second }) => [first, second, first - second]);
  const { n, clusters, means, covariance } = clusteredMeans(
    values,
    rows.map(({ cluster }) => cluster),
  );
  const meanAt = (k: number, range: Interval): SampleMean => {
    const [value = NaN, variance = NaN] = [means[k], covariance[k]?.[k]];
    return { value, variance, clusters, n, range, level };
  };
  const [first, second, difference] = [meanAt(0, REWARD), meanAt(1, REWARD), meanAt(2, DIFFERENCE)];
  const isBinary = rows.every((row) =>
    [row.first, row.second].every((reward) => reward === 0 || reward === 1),
  );
  if (!isBinary) {
    return {
      first: measureReal(first),
      second: measureReal(second),
      difference: measureReal(difference),
    };
  }
  const wins = rows.filter((row) => row.first > row.second).length;
  const losses = rows.filter((row) => row.first < row.second).length;
  return {
    first: measureShare(first),
    second: measureShare(second),
    difference: measurePaired(difference, wins, losses),
  };
}
