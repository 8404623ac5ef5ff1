/**
 * Confidence sequence for a share of successes from a uniform mixture (Robbins 1970): every p whose likelihood is not
 * 1/alpha times below the mixture's. Valid at any time.
 */
import type { Interval } from './interval.ts';
import { logBeta } from './special-functions.ts';

const STEPS = 200;

/** The sequence after `successes` of `trials` (integers, 0 <= successes <= trials) at confidence `1 - alpha`. */
export function betaBinomialInterval(successes: number, trials: number, alpha: number): Interval {
  const failures = trials - successes;
  if (!(successes >= 0 && failures >= 0)) throw new RangeError(`got ${successes} successes of ${trials}`);
  const mixture = logBeta(1 + successes, 1 + failures);
  const limit = -Math.log(alpha);
  const outside = (p: number) =>
    mixture - term(successes, Math.log(p)) - term(failures, Math.log1p(-p)) >= limit;
  const peak = trials === 0 ? 0.5 : successes / trials;
  const low = outside(0) ? boundary(outside, 0, peak) : 0;
  const high = outside(1) ? boundary(outside, 1, peak) : 1;
  return [low, high];
}

function term(count: number, log: number): number {
  return count === 0 ? 0 : count * log;
}

function boundary(outside: (p: number) => boolean, far: number, near: number): number {
  let [out, inside] = [far, near];
  for (let step = 0; step < STEPS && out !== inside; step += 1) {
    const middle = (out + inside) / 2;
    if (outside(middle)) out = middle;
    else inside = middle;
  }
  return (out + inside) / 2;
}
