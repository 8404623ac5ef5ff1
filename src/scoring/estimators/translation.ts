/**
 * Does individual strength translate into contribution? Our own definition of the verdict, on the joint distribution
 * of individual strengths u and leave-one-out values lambda: are the strongest alone and the strongest in the team the
 * same, and do the two rankings agree?
 */
import type { RandomGenerator } from 'pure-rand/types/RandomGenerator';
import { normalDraws } from '../statistics/normal-draws.ts';
import { spearman } from '../statistics/rank-correlation.ts';
import type { Interval } from '../statistics/interval.ts';

export interface Translation {
  readonly verdict: 'TRANSLATES' | 'DOES_NOT' | 'UNRESOLVED';
  /** Share of draws in which the strongest alone is the strongest in the team. */
  readonly topAgreement: number;
  readonly spearman: Interval;
  /** Slope of lambda on u. */
  readonly slope: Interval;
  /** lambda of the strongest alone less the best other lambda. */
  readonly advantage: Interval;
}

/**
 * The verdict for n members: `means` are u_1..u_n, lambda_1..lambda_n with their 2n x 2n prompt-clustered
 * `covariance`. `draws` (10,000 by default) come from the seeded `random`; intervals have level 0.95. When every
 * lambda is `equivalent` to 0, there is nothing to translate into and the verdict is UNRESOLVED. The draws re-use the
 * prompts that chose the strongest member: an advantage near zero is biased, cross-fit it before acting on it.
 */
export function translation(
  means: readonly number[],
  covariance: readonly (readonly number[])[],
  equivalent: boolean,
  random: RandomGenerator,
  draws = 10_000,
): Translation {
  const n = means.length / 2;
  const noise = normalDraws(covariance, random);
  const [rho, slope, advantage] = [new Float64Array(draws), new Float64Array(draws), new Float64Array(draws)];
  const strongest = argmax(means.slice(0, n));
  let agree = 0;
  for (let index = 0; index < draws; index += 1) {
    const draw = noise().map((value, k) => value + (means[k] ?? NaN));
    const [u, lambda] = [draw.slice(0, n), draw.slice(n)];
    if (argmax(u) === argmax(lambda)) agree += 1;
    rho[index] = spearman(u, lambda);
    slope[index] = regressionSlope(u, lambda);
    advantage[index] = (lambda[strongest] ?? NaN) - Math.max(...lambda.filter((_, i) => i !== strongest));
  }
  const found = {
    topAgreement: agree / draws,
    spearman: central(rho),
    slope: central(slope),
    advantage: central(advantage),
  };
  return { ...found, verdict: equivalent ? 'UNRESOLVED' : verdictOf(found) };
}

function verdictOf({
  topAgreement,
  spearman: rho,
  slope,
  advantage,
}: Omit<Translation, 'verdict'>): Translation['verdict'] {
  if (topAgreement >= 0.95 && rho[0] > 0) return 'TRANSLATES';
  return topAgreement <= 0.05 || advantage[1] < 0 || slope[1] <= 0 ? 'DOES_NOT' : 'UNRESOLVED';
}

function regressionSlope(x: readonly number[], y: readonly number[]): number {
  const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const [meanX, meanY] = [mean(x), mean(y)];
  let [xy, xx] = [0, 0];
  x.forEach((value, i) => {
    xy += (value - meanX) * ((y[i] ?? NaN) - meanY);
    xx += (value - meanX) ** 2;
  });
  return xy / xx;
}

function central(values: Float64Array): Interval {
  values.sort();
  const quantile = (p: number) => values[Math.min(values.length - 1, Math.floor(p * values.length))] ?? NaN;
  return [quantile(0.025), quantile(0.975)];
}

function argmax(values: readonly number[]): number {
  return values.indexOf(Math.max(...values));
}
