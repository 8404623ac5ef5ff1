/** Interval for a share of successes (Wilson 1927, score interval without continuity correction). */
import { clip, type Interval } from './interval.ts';
import { normalQuantile } from './special-functions.ts';

/**
 * Wilson interval for `successes` of `trials` at confidence `1 - alpha`. Both may be fractional (effective counts of
 * a clustered sample). RangeError unless 0 <= successes <= trials and trials > 0.
 */
export function wilsonInterval(successes: number, trials: number, alpha: number): Interval {
  if (!(trials > 0 && successes >= 0 && successes <= trials)) {
    throw new RangeError(`need 0 <= successes <= trials and trials > 0, got ${successes} of ${trials}`);
  }
  const z = normalQuantile(1 - alpha / 2);
  const share = successes / trials;
  const weight = 1 + (z * z) / trials;
  const centre = (share + (z * z) / (2 * trials)) / weight;
  const spread = Math.sqrt((share * (1 - share)) / trials + (z * z) / (4 * trials * trials));
  const radius = (z * spread) / weight;
  const low = successes === 0 ? 0 : centre - radius;
  const high = successes === trials ? 1 : centre + radius;
  return clip([low, high], [0, 1]);
}
