/**
 * E-value of "two paired systems succeed equally often": valid at any time, however often it is looked at. The
 * likelihood ratio of a Beta(a, a) mixture over the share of discordant pairs won, against one half; a nonnegative
 * supermartingale under the null (Ville 1939; Ramdas et al. 2023).
 */
import { betaCdf, logBeta } from './special-functions.ts';

/**
 * ln E for `n10` against `n01` discordant pairs. Reject equality at level alpha once `twoSided >= ln(1/alpha)`;
 * reject "the first is not better" once `greater >= ln(1/alpha)`. `prior` > 0 is `a`, 10 by default.
 */
export function eMcNemar(n10: number, n01: number, prior = 10): { twoSided: number; greater: number } {
  const won = prior + n10;
  const lost = prior + n01;
  const twoSided = logBeta(won, lost) - logBeta(prior, prior) + (n10 + n01) * Math.LN2;
  // P(Beta(won, lost) > 1/2), as the lower tail of the mirrored law: no cancellation when it is tiny.
  return { twoSided, greater: twoSided + Math.log(betaCdf(0.5, lost, won)) + Math.LN2 };
}
