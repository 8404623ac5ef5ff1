/** Does one ranking say something about another? Spearman 1904; Kendall 1945 (tau-b, with ties). */
import { permutationPValue, type PermutationPValue } from './permutation.ts';

export type { PermutationPValue };

/** Ranks from 1, ties sharing their average rank. */
export function averageRanks(values: readonly number[]): number[] {
  return values.map((value) => {
    let below = 0;
    let equal = 0;
    for (const other of values) {
      if (other < value) below += 1;
      else if (other === value) equal += 1;
    }
    return below + (equal + 1) / 2;
  });
}

/** Spearman's rho: Pearson correlation of the average ranks. NaN when one side is constant. */
export function spearman(x: readonly number[], y: readonly number[]): number {
  return pearson(averageRanks(x), averageRanks(y));
}

/** Kendall's tau-b. NaN when one side is constant. */
export function kendallTauB(x: readonly number[], y: readonly number[]): number {
  let concordance = 0;
  let untiedX = 0;
  let untiedY = 0;
  for (let i = 0; i < x.length; i += 1) {
    for (let j = 0; j < i; j += 1) {
      const signX = Math.sign((x[i] ?? NaN) - (x[j] ?? NaN));
      const signY = Math.sign((y[i] ?? NaN) - (y[j] ?? NaN));
      concordance += signX * signY;
      untiedX += signX * signX;
      untiedY += signY * signY;
    }
  }
  return concordance / Math.sqrt(untiedX * untiedY);
}

/** Pearson correlation; NaN when one side is constant. */
export function pearson(x: readonly number[], y: readonly number[]): number {
  const meanX = x.reduce((sum, value) => sum + value, 0) / x.length;
  const meanY = y.reduce((sum, value) => sum + value, 0) / y.length;
  let [xy, xx, yy] = [0, 0, 0];
  x.forEach((value, index) => {
    const dx = value - meanX;
    const dy = (y[index] ?? NaN) - meanY;
    xy += dx * dy;
    xx += dx * dx;
    yy += dy * dy;
  });
  return xy / Math.sqrt(xx * yy);
}

/**
 * Exact permutation p-values of `statistic` ("greater" and two-sided) for up to 8 pairs. Note the smallest attainable
 * two-sided one: 1/3 for three pairs, 1/12 for four, 1/60 for five. RangeError beyond 8.
 */
export function exactPermutationTest(
  statistic: (x: readonly number[], y: readonly number[]) => number,
  x: readonly number[],
  y: readonly number[],
): PermutationPValue {
  return permutationPValue((shuffled) => statistic(x, shuffled), y);
}
