/**
 * Shapley values as a weighted least-squares fit (Charnes et al. 1988; Lundberg & Lee 2017): an independent way to the
 * same numbers when all coalitions are known, and a surrogate when some are.
 */
import { Matrix, solve } from 'ml-matrix';
import { choose, coalitionSize, grandMask, hasPlayer } from './coalition.ts';

/** Kernel weight of one coalition of size s, 0 < s < n. Never multiply it by counts: that changes the estimand. */
export function kernelWeight(n: number, s: number): number {
  return (n - 1) / (choose(n, s) * s * (n - s));
}

/** Off-diagonal of the expected Gram matrix when coalitions are drawn from the kernel (the diagonal is 1/2). */
export function kernelGram(n: number): number {
  let [above, below] = [0, 0];
  for (let s = 1; s < n; s += 1) {
    above += (s - 1) / (n - s);
    below += 1 / (s * (n - s));
  }
  return above / (n * (n - 1) * below);
}

/**
 * The fit to the coalitions in `values` (by mask; must hold 0 and the grand mask, which are met exactly). With all of
 * them the result is the Shapley value. RangeError when an end is missing.
 */
export function kernelShap(n: number, values: ReadonlyMap<number, number>): number[] {
  const [empty, grand] = [values.get(0), values.get(grandMask(n))];
  if (empty === undefined || grand === undefined)
    throw new RangeError('the empty and the grand coalition are needed');
  const system = Matrix.zeros(n + 1, n + 1);
  const right = Matrix.zeros(n + 1, 1);
  for (const [mask, value] of values) {
    const size = coalitionSize(mask);
    if (size === 0 || size === n) continue;
    const weight = kernelWeight(n, size);
    for (let i = 0; i < n; i += 1) {
      if (!hasPlayer(mask, i)) continue;
      right.set(i, 0, right.get(i, 0) + weight * (value - empty));
      for (let j = 0; j < n; j += 1) if (hasPlayer(mask, j)) system.set(i, j, system.get(i, j) + weight);
    }
  }
  for (let i = 0; i < n; i += 1) {
    system.set(i, n, 1);
    system.set(n, i, 1);
  }
  right.set(n, 0, grand - empty);
  return solve(system, right).getColumn(0).slice(0, n);
}
