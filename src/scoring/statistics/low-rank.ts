/** The nearest matrix of a lower rank (Eckart & Young 1936), as two factors. */
import { Matrix, SVD } from 'ml-matrix';

export interface Factors {
  /** One for each row, of `rank` numbers. */
  readonly left: readonly (readonly number[])[];
  /** `rank` rows of as many numbers as the matrix has columns. */
  readonly right: readonly (readonly number[])[];
}

/**
 * Factors whose product is the nearest to the rows, in the sum of squares.
 *
 * @param rows one or more of one length
 * @param rank the most that the factors have; never more than the rows or the columns
 */
export function lowRank(rows: readonly (readonly number[])[], rank: number): Factors {
  const matrix = new Matrix(rows.map((row) => [...row]));
  const svd = new SVD(matrix, { autoTranspose: true });
  const kept = Math.min(rank, svd.diagonal.length);
  const places = Array.from({ length: kept }, (_, index) => index);
  const left = rows.map((_row, at) =>
    places.map((k) => svd.leftSingularVectors.get(at, k) * (svd.diagonal[k] ?? 0)),
  );
  const right = places.map((k) => svd.rightSingularVectors.getColumn(k));
  return { left, right };
}
