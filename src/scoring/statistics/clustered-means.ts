/** Means of several statistics over the same prompts, with their joint cluster-robust covariance. */

export interface ClusteredMeans {
  /** Prompts. */
  readonly n: number;
  readonly clusters: number;
  readonly means: number[];
  /** Covariance of the means; NaN throughout when there is one cluster. */
  readonly covariance: number[][];
}

/**
 * `rows[p]` holds the statistics of prompt p, `clusters[p]` names its cluster. The k-th mean is over prompts, its
 * uncertainty between clusters (Liang & Zeger 1986, factor C/(C-1)). RangeError without rows or on ragged input.
 */
export function clusteredMeans(
  rows: readonly ArrayLike<number>[],
  clusters: readonly string[],
): ClusteredMeans {
  const width = rows[0]?.length ?? 0;
  if (rows.length === 0 || rows.length !== clusters.length) {
    throw new RangeError(`need one cluster name a row, got ${clusters.length} for ${rows.length} rows`);
  }
  const means = columnMeans(rows, width);
  const deviations = clusterDeviations(rows, clusters, means);
  const count = deviations.length;
  const factor = count < 2 ? NaN : count / (count - 1) / rows.length ** 2;
  const covariance = means.map(() => new Array<number>(width).fill(0));
  for (let i = 0; i < width; i += 1) {
    for (let j = 0; j <= i; j += 1) {
      let sum = 0;
      for (const deviation of deviations) sum += (deviation[i] ?? 0) * (deviation[j] ?? 0);
      covariance[i]![j] = covariance[j]![i] = sum * factor;
    }
  }
  return { n: rows.length, clusters: count, means, covariance };
}

function columnMeans(rows: readonly ArrayLike<number>[], width: number): number[] {
  const sums = new Array<number>(width).fill(0);
  for (const row of rows) {
    if (row.length !== width)
      throw new RangeError(`a row has ${row.length} statistics, the first has ${width}`);
    for (let k = 0; k < width; k += 1) sums[k]! += row[k] ?? NaN;
  }
  return sums.map((sum) => sum / rows.length);
}

/** Per cluster the sum of (value - mean), which is `T_c - m_c * mean`. */
function clusterDeviations(
  rows: readonly ArrayLike<number>[],
  clusters: readonly string[],
  means: readonly number[],
): Float64Array[] {
  const byName = new Map<string, Float64Array>();
  rows.forEach((row, index) => {
    const name = clusters[index] ?? '';
    let deviation = byName.get(name);
    if (deviation === undefined) byName.set(name, (deviation = new Float64Array(means.length)));
    for (let k = 0; k < means.length; k += 1) deviation[k]! += (row[k] ?? NaN) - (means[k] ?? NaN);
  });
  return [...byName.values()];
}
