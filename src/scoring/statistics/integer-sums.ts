/**
 * Means and variances from exact integer sums. Sums of integers merge in any order and can be taken back exactly, and
 * `n*sum(x^2) - sum(x)^2` in BigInt has no cancellation; only the last division rounds.
 */
export interface IntegerSums {
  readonly n: bigint;
  readonly sum: bigint;
  readonly sumSquares: bigint;
}

/** Mean of the values, each stored as `round(scale * value)`. NaN when there is none. */
export function meanOfSums({ n, sum }: IntegerSums, scale: number): number {
  return ratio(sum, n) / scale;
}

/** Unbiased variance of the values; NaN below two of them. */
export function varianceOfSums({ n, sum, sumSquares }: IntegerSums, scale: number): number {
  return ratio(n * sumSquares - sum * sum, n * (n - 1n)) / (scale * scale);
}

/** Unbiased covariance of two series over the same `n` rows, from their sums and the sum of their products. */
export function covarianceOfSums(
  n: bigint,
  sumX: bigint,
  sumY: bigint,
  sumXY: bigint,
  scale: number,
): number {
  return ratio(n * sumXY - sumX * sumY, n * (n - 1n)) / (scale * scale);
}

/** Nearest double of a quotient of any size (to 2^-62 relative); NaN for a divisor that is not positive. */
export function ratio(numerator: bigint, denominator: bigint): number {
  if (denominator <= 0n) return NaN;
  const magnitude = numerator < 0n ? -numerator : numerator;
  if (magnitude === 0n) return 0;
  const shift = bitLength(denominator) - bitLength(magnitude) + 63;
  const scaled =
    shift >= 0 ? (magnitude << BigInt(shift)) / denominator : magnitude / (denominator << BigInt(-shift));
  return (numerator < 0n ? -1 : 1) * timesPowerOfTwo(Number(scaled), -shift);
}

function bitLength(value: bigint): number {
  const hex = value.toString(16);
  return (hex.length - 1) * 4 + (32 - Math.clz32(parseInt(hex.charAt(0), 16)));
}

/** In two steps, because 2^-shift alone may underflow or overflow where the product does not. */
function timesPowerOfTwo(value: number, exponent: number): number {
  const half = Math.trunc(exponent / 2);
  return value * 2 ** half * 2 ** (exponent - half);
}
