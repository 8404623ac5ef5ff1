/** Test of equal success of two paired systems, on the discordant pairs alone (McNemar 1947). */
import { binomialCdf, logBeta } from './special-functions.ts';

/**
 * Two-sided p-values for `n10` against `n01` discordant pairs: the exact conditional one, and the mid-p one
 * (Fagerland, Lydersen & Laake 2013), which is closer to its level. Integers >= 0.
 */
export function mcnemarTest(n10: number, n01: number): { exact: number; midP: number } {
  const pairs = n10 + n01;
  if (pairs === 0) return { exact: 1, midP: 1 };
  const fewer = Math.min(n10, n01);
  const tail = binomialCdf(fewer, pairs, 0.5);
  const point = binomialPoint(fewer, pairs);
  // With a tie the two tails share their one most extreme point, of which half counts.
  if (n10 === n01) return { exact: 1, midP: 1 - point / 2 };
  return { exact: 2 * tail, midP: 2 * tail - point };
}

function binomialPoint(k: number, n: number): number {
  return Math.exp(-Math.log(n + 1) - logBeta(k + 1, n - k + 1) - n * Math.LN2);
}
