/**
 * A recent mean from buckets of sums, older buckets counting less. Fixed-n only: forgetting breaks anytime validity.
 */
export interface Bucket {
  readonly n: number;
  readonly sum: number;
  readonly sumSquares: number;
}

/**
 * Weighted mean, variance of that mean, and effective count. `buckets` oldest first; each bucket back in time counts
 * `factor` in (0, 1] times the next (half-life h buckets: `2^(-1/h)`).
 */
export function forgettingMean(
  buckets: readonly Bucket[],
  factor: number,
): { mean: number; variance: number; effective: number } {
  const weights = buckets.map((_, index) => factor ** (buckets.length - 1 - index));
  const total = (value: (bucket: Bucket) => number, power = 1) =>
    buckets.reduce((sum, bucket, index) => sum + (weights[index] ?? 0) ** power * value(bucket), 0);
  const count = total((bucket) => bucket.n);
  const mean = total((bucket) => bucket.sum) / count;
  const squares = total((bucket) => bucket.sumSquares - 2 * mean * bucket.sum + mean * mean * bucket.n, 2);
  return { mean, variance: squares / count ** 2, effective: count ** 2 / total((bucket) => bucket.n, 2) };
}
