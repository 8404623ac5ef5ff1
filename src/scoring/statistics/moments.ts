/**
 * Running mean and variance of real numbers, one value at a time (Welford 1962) or by merging parts (Chan, Golub,
 * LeVeque 1979). Order-dependent in the last bits: for exact merging keep integer sums instead.
 */
export interface Moments {
  /** Number of values. */
  readonly n: number;
  readonly mean: number;
  /** Sum of squared deviations from the mean. */
  readonly m2: number;
}

export const NO_MOMENTS: Moments = { n: 0, mean: 0, m2: 0 };

/** The moments with one more value. */
export function addValue({ n, mean, m2 }: Moments, x: number): Moments {
  const next = mean + (x - mean) / (n + 1);
  return { n: n + 1, mean: next, m2: m2 + (x - mean) * (x - next) };
}

/** The moments without one value that was added before; RangeError if there is none. */
export function removeValue({ n, mean, m2 }: Moments, x: number): Moments {
  if (n < 1) throw new RangeError('there is no value to remove');
  if (n === 1) return NO_MOMENTS;
  const rest = (n * mean - x) / (n - 1);
  return { n: n - 1, mean: rest, m2: Math.max(0, m2 - (x - mean) * (x - rest)) };
}

/** The moments of two disjoint sets of values together. */
export function mergeMoments(a: Moments, b: Moments): Moments {
  if (a.n === 0) return b;
  if (b.n === 0) return a;
  const n = a.n + b.n;
  const gap = b.mean - a.mean;
  return { n, mean: a.mean + (gap * b.n) / n, m2: a.m2 + b.m2 + (gap * gap * a.n * b.n) / n };
}

/** The moments of a list of values. */
export function momentsOf(values: Iterable<number>): Moments {
  let moments = NO_MOMENTS;
  for (const value of values) moments = addValue(moments, value);
  return moments;
}

/** Unbiased variance; NaN below two values. */
export function variance({ n, m2 }: Moments): number {
  return n < 2 ? NaN : m2 / (n - 1);
}
