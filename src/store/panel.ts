/**
 * A full panel: every coalition of one prompt was run and rewarded, so the prompt itself has a Shapley value. Its row
 * is kept as integers (10⁵ × value, rounded half away from zero), whose sums and cross sums give means and
 * covariances exactly. Rewards come as integers (10⁴ × reward).
 *
 * All arithmetic is on integers below 2⁵³: Shapley weights are multiplied by n!, so that Lua and JavaScript doubles
 * are exact and round alike (`redis/apply.lua` is the same computation).
 */

/** The largest pool with functional rows: 255 coalitions, 25 functionals, 375 fields. */
export const MAX_PANEL = 8;

/** The names of a row's columns: u individual, l leave-one-out, c centred Shapley, g the grand coalition. */
export function panelColumns(n: number): string[] {
  const members = Array.from({ length: n }, (_, i) => i);
  return [...['u', 'l', 'c'].flatMap((letter) => members.map((i) => `${letter}${i}`)), 'g'];
}

/** The row of one prompt; `rewards[mask]` is the reward of a coalition, that of the empty one is 0. */
export function panelRow(n: number, rewards: readonly number[]): number[] {
  const full = 2 ** n - 1;
  const of = (mask: number) => rewards[mask] ?? 0;
  const grand = of(full);
  const solo: number[] = [];
  const without: number[] = [];
  const centred: number[] = [];
  const shapley = scaledShapley(n, of);
  for (let i = 0; i < n; i++) {
    solo.push(10 * of(2 ** i));
    without.push(10 * (grand - of(full - 2 ** i)));
    const centredTimesFactorial = (shapley[i] ?? 0) - grand * factorial(n - 1);
    centred.push(divideHalfAway(10 * centredTimesFactorial, factorial(n)));
  }
  return [...solo, ...without, ...centred, 10 * grand];
}

/** n! times the Shapley values. A coalition of s members weighs (s−1)!(n−s)! for its own, s!(n−1−s)! against others. */
function scaledShapley(n: number, of: (mask: number) => number): number[] {
  const total = Array.from({ length: n }, () => 0);
  for (let mask = 1; mask < 2 ** n; mask++) {
    let size = 0;
    for (let i = 0; i < n; i++) size += (mask >> i) & 1;
    const inside = factorial(size - 1) * factorial(n - size);
    const outside = size < n ? factorial(size) * factorial(n - 1 - size) : 0;
    for (let i = 0; i < n; i++) {
      total[i] = (total[i] ?? 0) + ((mask >> i) & 1 ? inside : -outside) * of(mask);
    }
  }
  return total;
}

function factorial(k: number): number {
  let product = 1;
  for (let i = 2; i <= k; i++) product *= i;
  return product;
}

function divideHalfAway(numerator: number, denominator: number): number {
  const size = Math.floor((2 * Math.abs(numerator) + denominator) / (2 * denominator));
  return numerator < 0 ? -size : size;
}
