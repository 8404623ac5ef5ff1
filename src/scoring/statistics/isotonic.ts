/** Isotonic regression: the non-decreasing values nearest to given ones (pool adjacent violators, Ayer et al. 1955). */

export interface Weighted {
  readonly value: number;
  /** Positive. */
  readonly weight: number;
}

/** As many values as are given, in their order; each block of equal ones is the weighted mean of what it replaces. */
export function isotonic(points: readonly Weighted[]): number[] {
  const blocks: { value: number; weight: number; count: number }[] = [];
  for (const { value, weight } of points) {
    let block = { value, weight, count: 1 };
    for (let before = blocks.at(-1); before && before.value >= block.value; before = blocks.at(-1)) {
      blocks.pop();
      const sum = before.weight + block.weight;
      const mean = (before.value * before.weight + block.value * block.weight) / sum;
      block = { value: mean, weight: sum, count: before.count + block.count };
    }
    blocks.push(block);
  }
  return blocks.flatMap(({ value, count }) => new Array<number>(count).fill(value));
}
