/** How exact an index gets when every coalition has prompts of its own, and how to share a budget among coalitions. */
import { coalitionSize } from './coalition.ts';
import { coefficientAt, type PlayerCoefficients } from './coefficients.ts';

/**
 * Standard error of each player's index when cell S has its own `prompts` prompts and variance `variances[S]` (by
 * mask; 0 for a cell that is known). `Var = sum a^2 s^2 / m`.
 */
export function independentCellErrors(
  n: number,
  coefficients: PlayerCoefficients,
  variances: ArrayLike<number>,
  prompts: number,
): number[] {
  return Array.from({ length: n }, (_, i) => {
    let sum = 0;
    for (let mask = 0; mask < 2 ** n; mask += 1) {
      sum += (coefficientAt(coefficients, i, mask) ** 2 * (variances[mask] ?? 0)) / prompts;
    }
    return Math.sqrt(sum);
  });
}

/**
 * Shares of the prompts, by mask, that minimise the summed variance of all players' indices for a given total cost
 * (Neyman 1934, with costs): proportional to `sqrt(sum_i a_i(S)^2) * sigma_S / sqrt(cost)`, cost = model calls = |S|.
 */
export function neymanShares(
  n: number,
  coefficients: PlayerCoefficients,
  variances: ArrayLike<number>,
): Float64Array {
  const shares = new Float64Array(2 ** n);
  for (let mask = 1; mask < shares.length; mask += 1) {
    let squares = 0;
    for (let i = 0; i < n; i += 1) squares += coefficientAt(coefficients, i, mask) ** 2;
    shares[mask] = Math.sqrt((squares * (variances[mask] ?? 0)) / coalitionSize(mask));
  }
  const total = shares.reduce((sum, share) => sum + share, 0);
  return shares.map((share) => share / total);
}
