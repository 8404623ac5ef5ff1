/** Exact permutation tests by enumeration. */

export interface PermutationPValue {
  /** P(statistic >= the observed one). */
  readonly greater: number;
  /** P(|statistic| >= the observed one). */
  readonly twoSided: number;
}

const LARGEST = 8;
/** Permutations with the same statistic differ in the last bits. */
const SLACK = 1e-12;

/** p-values of `statistic(values)` over all orders of `values`; RangeError for more than 8 values. */
export function permutationPValue(
  statistic: (values: readonly number[]) => number,
  values: readonly number[],
): PermutationPValue {
  if (values.length > LARGEST) throw new RangeError(`exact up to ${LARGEST} values, got ${values.length}`);
  const observed = statistic(values);
  let [all, greater, twoSided] = [0, 0, 0];
  for (const order of permutations(values)) {
    const value = statistic(order);
    all += 1;
    if (value >= observed - SLACK) greater += 1;
    if (Math.abs(value) >= Math.abs(observed) - SLACK) twoSided += 1;
  }
  return { greater: greater / all, twoSided: twoSided / all };
}

/** All orders of `values`, each exactly once by position (Heap 1963). The yielded array is reused. */
export function* permutations(values: readonly number[]): Generator<readonly number[]> {
  const order = [...values];
  const counters = new Array<number>(order.length).fill(0);
  yield order;
  for (let i = 1; i < order.length;) {
    const count = counters[i] ?? 0;
    if (count < i) {
      const from = i % 2 === 0 ? 0 : count;
      [order[from], order[i]] = [order[i]!, order[from]!];
      counters[i] = count + 1;
      i = 1;
      yield order;
    } else {
      counters[i] = 0;
      i += 1;
    }
  }
}
