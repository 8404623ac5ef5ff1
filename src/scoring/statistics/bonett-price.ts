/** Interval for a difference of two paired shares (Bonett & Price 2012, adjusted Wald). */
import { clip, type Interval } from './interval.ts';
import { normalQuantile } from './special-functions.ts';

/**
 * Interval for p10 - p01 at confidence `1 - alpha`: `n10` pairs where only the first succeeded, `n01` where only the
 * second did, `n` pairs in all. Counts may be fractional (effective counts). Conservative for small n.
 */
export function bonettPriceInterval(n10: number, n01: number, n: number, alpha: number): Interval {
  if (!(n10 >= 0 && n01 >= 0 && n > 0 && n10 + n01 <= n * (1 + 1e-12))) {
    throw new RangeError(`need n10 + n01 <= n and n > 0, got ${n10} + ${n01} of ${n}`);
  }
  const p10 = (n10 + 1) / (n + 2);
  const p01 = (n01 + 1) / (n + 2);
  const centre = p10 - p01;
  const radius = normalQuantile(1 - alpha / 2) * Math.sqrt((p10 + p01 - centre * centre) / (n + 2));
  return clip([centre - radius, centre + radius], [-1, 1]);
}
