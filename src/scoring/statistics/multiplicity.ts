/** Several hypotheses at once: Holm 1979, Benjamini & Hochberg 1995, e-BH (Wang & Ramdas 2022). */

/** Holm-adjusted p-values, in the order given: reject where <= alpha; family-wise, any dependence. */
export function holm(p: readonly number[]): number[] {
  const adjusted = new Array<number>(p.length).fill(1);
  let running = 0;
  ascending(p).forEach((index, rank) => {
    running = Math.max(running, Math.min(1, (p.length - rank) * (p[index] ?? 1)));
    adjusted[index] = running;
  });
  return adjusted;
}

/** Benjamini-Hochberg-adjusted p-values, in the order given: reject where <= q; false discovery rate. */
export function benjaminiHochberg(p: readonly number[]): number[] {
  const adjusted = new Array<number>(p.length).fill(1);
  const order = ascending(p);
  let running = 1;
  for (let rank = order.length; rank >= 1; rank -= 1) {
    const index = order[rank - 1] ?? 0;
    running = Math.min(running, (p.length / rank) * (p[index] ?? 1));
    adjusted[index] = running;
  }
  return adjusted;
}

/**
 * Indices that e-BH rejects at false discovery rate `alpha`, ascending. Valid under any dependence at one declared
 * report time; not for running maxima of e-processes.
 */
export function eBenjaminiHochberg(e: readonly number[], alpha: number): number[] {
  const order = ascending(e).toReversed();
  let rejected = 0;
  order.forEach((index, rank) => {
    if ((e[index] ?? 0) >= e.length / (alpha * (rank + 1))) rejected = rank + 1;
  });
  return order.slice(0, rejected).toSorted((a, b) => a - b);
}

function ascending(values: readonly number[]): number[] {
  return values.map((_, index) => index).toSorted((a, b) => (values[a] ?? 0) - (values[b] ?? 0));
}
