/**
 * Intervals for ranks (Mogstad, Romano, Shaikh & Wilhelm 2024): simultaneous intervals for all differences, from the
 * joint covariance of the estimates, turned into "how many are surely better, how many surely worse".
 */
import type { RandomGenerator } from 'pure-rand/types/RandomGenerator';
import { normalDraws } from './normal-draws.ts';

export interface Ranking {
  /** [best, worst] rank of each estimate, 1 is best; all of them hold together with the given confidence. */
  readonly ranks: [best: number, worst: number][];
  /** Share of draws around the estimates in which each is the largest: descriptive, no confidence statement. */
  readonly best: number[];
}

/**
 * Rank intervals of `values` (larger is better) with covariance `covariance` at confidence `1 - alpha`. `draws`
 * (10,000 by default) seeded normal draws are taken from `random`. An unknown (not finite) covariance ranks nothing.
 */
export function rankIntervals(
  values: readonly number[],
  covariance: readonly (readonly number[])[],
  alpha: number,
  random: RandomGenerator,
  draws = 10_000,
): Ranking {
  const unknown = values.length < 2 || covariance.some((row) => row.some((entry) => !Number.isFinite(entry)));
  if (unknown)
    return { ranks: values.map(() => [1, values.length]), best: values.map(() => 1 / values.length) };
  const errors = differenceErrors(covariance);
  const draw = normalDraws(covariance, random);
  const maxima = new Float64Array(draws);
  const wins = values.map(() => 0);
  for (let index = 0; index < draws; index += 1) {
    const noise = draw();
    maxima[index] = largestDifference(noise, errors);
    wins[largest(values.map((value, i) => value + (noise[i] ?? 0)))]! += 1;
  }
  maxima.sort();
  const critical = maxima[Math.min(draws - 1, Math.ceil((1 - alpha) * draws) - 1)] ?? Infinity;
  const ranks = values.map((value, i): [number, number] => {
    let [better, worse] = [0, 0];
    values.forEach((other, j) => {
      const margin = critical * (errors[i]?.[j] ?? 0);
      if (j !== i && other - value > margin) better += 1;
      if (j !== i && value - other > margin) worse += 1;
    });
    return [1 + better, values.length - worse];
  });
  return { ranks, best: wins.map((count) => count / draws) };
}

function differenceErrors(covariance: readonly (readonly number[])[]): number[][] {
  const at = (i: number, j: number) => covariance[i]?.[j] ?? NaN;
  return covariance.map((_, i) =>
    covariance.map((__, j) => Math.sqrt(Math.max(0, at(i, i) + at(j, j) - 2 * at(i, j)))),
  );
}

function largestDifference(noise: readonly number[], errors: readonly (readonly number[])[]): number {
  let largestRatio = 0;
  noise.forEach((value, i) => {
    for (let j = 0; j < i; j += 1) {
      const error = errors[i]?.[j] ?? 0;
      if (error > 0) largestRatio = Math.max(largestRatio, Math.abs(value - (noise[j] ?? 0)) / error);
    }
  });
  return largestRatio;
}

function largest(values: readonly number[]): number {
  return values.reduce((best, value, index) => (value > (values[best] ?? -Infinity) ? index : best), 0);
}
