/** Exact fractions of any size. */

export interface Rational {
  readonly numerator: bigint;
  /** Positive, and coprime to the numerator. */
  readonly denominator: bigint;
}

/** `numerator / denominator` in lowest terms; RangeError for a zero denominator. */
export function rational(numerator: bigint, denominator = 1n): Rational {
  if (denominator === 0n) throw new RangeError('a fraction needs a denominator other than zero');
  const sign = denominator < 0n ? -1n : 1n;
  const divisor = greatestCommonDivisor(numerator, denominator) * sign;
  return { numerator: numerator / divisor, denominator: denominator / divisor };
}

export const ONE: Rational = rational(1n);

export function add(a: Rational, b: Rational): Rational {
  return rational(a.numerator * b.denominator + b.numerator * a.denominator, a.denominator * b.denominator);
}

export function negate(a: Rational): Rational {
  return { numerator: -a.numerator, denominator: a.denominator };
}

export function multiply(a: Rational, b: Rational): Rational {
  return rational(a.numerator * b.numerator, a.denominator * b.denominator);
}

/** RangeError when `b` is zero. */
export function divide(a: Rational, b: Rational): Rational {
  return rational(a.numerator * b.denominator, a.denominator * b.numerator);
}

/** `a` to an integer power; RangeError for zero to a negative one. */
export function power(a: Rational, exponent: number): Rational {
  const base = exponent < 0 ? divide(ONE, a) : a;
  const times = BigInt(Math.abs(exponent));
  return { numerator: base.numerator ** times, denominator: base.denominator ** times };
}

export function absolute(a: Rational): Rational {
  return a.numerator < 0n ? negate(a) : a;
}

/** Negative, zero or positive as `a` is below, equal to or above `b`. */
export function compare(a: Rational, b: Rational): number {
  const difference = a.numerator * b.denominator - b.numerator * a.denominator;
  return difference < 0n ? -1 : difference > 0n ? 1 : 0;
}

/** `-7/2`, or `5` for a whole number. */
export function formatRational({ numerator, denominator }: Rational): string {
  return denominator === 1n ? String(numerator) : `${numerator}/${denominator}`;
}

function greatestCommonDivisor(a: bigint, b: bigint): bigint {
  let [x, y] = [a < 0n ? -a : a, b < 0n ? -b : b];
  while (y !== 0n) [x, y] = [y, x % y];
  return x;
}
