/** An estimate with its doubt, and the ways to make one from a closed sample or a growing one. */
import { sequenceRadius } from '../statistics/asymptotic-sequence.ts';
import { bonettPriceInterval } from '../statistics/bonett-price.ts';
import { clip, type Interval } from '../statistics/interval.ts';
import { normalQuantile, studentQuantile } from '../statistics/special-functions.ts';
import { wilsonInterval } from '../statistics/wilson.ts';

export interface Measured {
  readonly value: number;
  /** Cluster-robust; with a single cluster the largest it could be. */
  readonly standardError: number;
  readonly interval: Interval;
  readonly level: number;
  /**
   * How the interval was made: `t`, `wilson`, `bonett-price`, `asymp-cs`; `bernstein` where the observations never
   * differed and so have no variance to go by; `range` for one observation, which says nothing.
   */
  readonly method: 't' | 'wilson' | 'bonett-price' | 'asymp-cs' | 'bernstein' | 'range';
  readonly clusters: number;
  /** Prompts. */
  readonly n: number;
  /** Pairs of binary rewards that differed; only for paired differences of binary rewards. */
  readonly discordant?: number;
}

/** A mean over the prompts of a closed sample. */
export interface SampleMean {
  readonly value: number;
  /** Cluster-robust variance of the mean; NaN for one cluster. */
  readonly variance: number;
  readonly clusters: number;
  readonly n: number;
  /** What the value could be at all. */
  readonly range: Interval;
  readonly level: number;
}

/** A real-valued mean: t interval with C - 1 degrees of freedom. */
export function measureReal({ value, variance, clusters, n, range, level }: SampleMean): Measured {
  const common = { value, level, clusters, n };
  const width = range[1] - range[0];
  if (clusters < 2) return { ...common, standardError: width / 2, interval: range, method: 'range' };
  const standardError = Math.sqrt(variance);
  const alpha = 1 - level;
  // Maurer & Pontil 2009 with a sample variance of zero: t would claim certainty here.
  const constant = standardError <= 1e-9 * width;
  const bernstein = (7 * width * Math.log(4 / alpha)) / (3 * (clusters - 1));
  const radius = constant ? bernstein : studentQuantile(1 - alpha / 2, clusters - 1) * standardError;
  const interval = clip([value - radius, value + radius], range);
  return { ...common, standardError, interval, method: constant ? 'bernstein' : 't' };
}

/** A share of successes: Wilson; in clusters, with the effective counts of Korn & Graubard 1998. */
export function measureShare(mean: SampleMean): Measured {
  const whole = measureReal(mean);
  if (mean.clusters < 2) return whole;
  const { value, n, level } = mean;
  const effective = n / inflation(mean, (value * (1 - value)) / (n - 1));
  const interval = wilsonInterval(Math.min(1, value) * effective, effective, 1 - level);
  return { ...whole, interval, method: 'wilson' };
}

/** A difference of two binary rewards on the same prompts: Bonett-Price, on effective counts in clusters. */
export function measurePaired(mean: SampleMean, wins: number, losses: number): Measured {
  const whole = measureReal(mean);
  const discordant = wins + losses;
  if (mean.clusters < 2) return { ...whole, discordant };
  const { n, value, level } = mean;
  const factor = inflation(mean, (discordant / n - value * value) / (n - 1));
  const interval = bonettPriceInterval(wins / factor, losses / factor, n / factor, 1 - level);
  return { ...whole, interval, method: 'bonett-price', discordant };
}

/** A mean of a growing sample of independent prompts: anytime-valid (asymptotic confidence sequence). */
export function measureSequence(mean: SampleMean, tightAt: number): Measured {
  const { value, variance, clusters, n, range, level } = mean;
  const width = range[1] - range[0];
  const common = { value, level, clusters, n };
  if (clusters < 2) return { ...common, standardError: width / 2, interval: range, method: 'range' };
  // Observations that never differed count as if one more had been at the far end.
  const spread = variance > 0 ? variance * clusters : (width * width) / 4 / (clusters + 1);
  const radius = sequenceRadius(clusters, spread, 1 - level, tightAt);
  const interval = clip([value - radius, value + radius], range);
  return { ...common, standardError: Math.sqrt(variance), interval, method: 'asymp-cs' };
}

/** Design effect (at least 1) times the price of few clusters; exactly 1 when every prompt is a cluster. */
function inflation({ variance, clusters, n, level }: SampleMean, independent: number): number {
  if (clusters === n) return 1;
  const upper = 1 - (1 - level) / 2;
  const fewClusters = (studentQuantile(upper, clusters - 1) / normalQuantile(upper)) ** 2;
  const design = independent > 0 ? variance / independent : n / clusters;
  return Math.max(1, design) * fewClusters;
}
