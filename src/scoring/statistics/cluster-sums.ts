/**
 * Standard errors when prompts come in clusters (one conversation, user, template or duplicate prompt; replicates of
 * one prompt always). Ratio-mean form of the cluster-robust variance (Liang & Zeger 1986) with the C/(C-1) factor.
 */

/** Six sums that suffice, additive over clusters. `m_c` is a cluster's size, `T_c` the sum of its values. */
export interface ClusterSums {
  readonly clusters: number;
  /** sum m_c */
  readonly size: number;
  /** sum T_c */
  readonly total: number;
  /** sum m_c^2 */
  readonly sizeSquared: number;
  /** sum m_c T_c */
  readonly sizeTotal: number;
  /** sum T_c^2 */
  readonly totalSquared: number;
}

/** The six sums of a list of clusters, each a list of values. */
export function clusterSums(clusters: readonly (readonly number[])[]): ClusterSums {
  const sums = {
    clusters: clusters.length,
    size: 0,
    total: 0,
    sizeSquared: 0,
    sizeTotal: 0,
    totalSquared: 0,
  };
  for (const values of clusters) {
    const total = values.reduce((sum, value) => sum + value, 0);
    sums.size += values.length;
    sums.total += total;
    sums.sizeSquared += values.length ** 2;
    sums.sizeTotal += values.length * total;
    sums.totalSquared += total ** 2;
  }
  return sums;
}

/** Mean over prompts, its standard error and the degrees of freedom C - 1. The error is NaN for one cluster. */
export function clusterMean(sums: ClusterSums): { mean: number; standardError: number; df: number } {
  const { clusters, size, total, sizeSquared, sizeTotal, totalSquared } = sums;
  const mean = total / size;
  const squares = Math.max(0, totalSquared - 2 * mean * sizeTotal + mean * mean * sizeSquared);
  const standardError = clusters < 2 ? NaN : Math.sqrt((clusters / (clusters - 1)) * squares) / size;
  return { mean, standardError, df: clusters - 1 };
}
