/**
 * Interaction indices of two players: weighted means of the second difference
 * `D_ij(S) = v(S+ij) - v(S+i) - v(S+j) + v(S)` (Grabisch & Roubens 1999). With v(empty) = 0 and qualities in [0, 1]
 * those near the empty coalition are almost always negative: overlap, not antagonism.
 */
import { choose, coalitionSize } from './coalition.ts';

/** By size of S: the weight of one `D_ij(S)`; n - 1 of them. */
export type InteractionWeights = readonly number[];

export function shapleyInteraction(n: number): InteractionWeights {
  return Array.from({ length: n - 1 }, (_, s) => 1 / ((n - 1) * choose(n - 2, s)));
}

export function banzhafInteraction(n: number): InteractionWeights {
  return Array.from({ length: n - 1 }, () => 2 ** (2 - n));
}

/** `D_ij(empty)`: are two players more than the sum of themselves? */
export function synergyEmpty(n: number): InteractionWeights {
  return Array.from({ length: n - 1 }, (_, s) => (s === 0 ? 1 : 0));
}

/** `D_ij(N-ij)`: does j make i more (positive) or less needed in the whole pool? */
export function synergyGrand(n: number): InteractionWeights {
  return Array.from({ length: n - 1 }, (_, s) => (s === n - 2 ? 1 : 0));
}

/** The coefficient of v(mask) in the interaction of i and j. */
export function interactionAt(weights: InteractionWeights, i: number, j: number, mask: number): number {
  const pair = (1 << i) | (1 << j);
  const size = coalitionSize(mask & ~pair);
  const inside = coalitionSize(mask & pair);
  return (inside === 1 ? -1 : 1) * (weights[size] ?? 0);
}

/** One sum a pair and index: symmetric matrices with diagonal 0, in the order of `indices`. O(n^2 2^n). */
export function interactionMatrices(
  n: number,
  values: Float64Array,
  indices: readonly InteractionWeights[],
): number[][][] {
  const matrices = indices.map(() => Array.from({ length: n }, () => new Array<number>(n).fill(0)));
  for (let i = 0; i < n; i += 1) {
    for (let j = 0; j < i; j += 1) {
      const bySize = differencesBySize(n, values, 1 << i, 1 << j);
      indices.forEach((weights, k) => {
        const sum = bySize.reduce((total, value, s) => total + value * (weights[s] ?? 0), 0);
        matrices[k]![i]![j] = matrices[k]![j]![i] = sum;
      });
    }
  }
  return matrices;
}

function differencesBySize(n: number, values: Float64Array, bitI: number, bitJ: number): Float64Array {
  const sums = new Float64Array(n - 1);
  for (let mask = 0; mask < values.length; mask += 1) {
    if ((mask & (bitI | bitJ)) !== 0) continue;
    const both = (values[mask | bitI | bitJ] ?? NaN) - (values[mask | bitI] ?? NaN);
    sums[coalitionSize(mask)]! += both - (values[mask | bitJ] ?? NaN) + (values[mask] ?? NaN);
  }
  return sums;
}
