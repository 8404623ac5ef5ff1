/**
 * The duel design for centred Shapley values: on one prompt run a random coalition S and the rest of the pool, N\S.
 * By the complement identity the row below has expectation phi0 for every game, though only two coalitions are run.
 * Sizes follow `duelSizeLaw`, coalitions are uniform within a size.
 */
import { choose, coalitionSize, grandMask, hasPlayer } from './coalition.ts';

/** `H = sum over s = 1..n-1 of 1/(s(n-s))`; n >= 2. */
export function duelConstant(n: number): number {
  let sum = 0;
  for (let s = 1; s < n; s += 1) sum += 1 / (s * (n - s));
  return sum;
}

/** `[s]`: probability that the first half has s players, s = 1..n-1 (`[0]` is 0). */
export function duelSizeLaw(n: number): number[] {
  const h = duelConstant(n);
  return Array.from({ length: n }, (_, s) => (s === 0 ? 0 : 1 / (s * (n - s)) / h));
}

/** Probability that the first half is `mask`. */
export function duelProbability(n: number, mask: number): number {
  const size = coalitionSize(mask);
  return (duelSizeLaw(n)[size] ?? 0) / choose(n, size);
}

/** One prompt's unbiased estimate of phi0 of every player, from the rewards of `mask` and of its complement. */
export function duelRow(n: number, mask: number, reward: number, complementReward: number): Float64Array {
  if (!(mask > 0 && mask < grandMask(n)))
    throw new RangeError(`both halves must have players, got mask ${mask} of ${n}`);
  const size = coalitionSize(mask);
  const factor = duelConstant(n) / 2;
  return new Float64Array(n).map((_, i) => {
    const inside = hasPlayer(mask, i);
    const difference = inside ? reward - complementReward : complementReward - reward;
    return factor * (n - (inside ? size : n - size)) * difference;
  });
}
