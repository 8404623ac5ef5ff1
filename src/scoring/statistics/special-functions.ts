/**
 * Distribution functions, from the Cephes library (Moshier 1989) compiled to WebAssembly. The only file that knows
 * the package: its ES module compiles asynchronously, so the wait is here, once, and every caller stays synchronous.
 */
import { bdtr, compiled, incbet, incbi, lbeta, ndtr, ndtri, stdtr, stdtri } from 'cephes';

await compiled;

/**
 * Beyond, Cephes is slow and then overflows its 32-bit integers, and the first term of Fisher's expansion around the
 * normal law is exact to 1e-11.
 */
const LARGEST_DF = 1_000_000;

/** Quantile of the standard normal law. `p` in (0, 1); RangeError outside. */
export function normalQuantile(p: number): number {
  return ndtri(probability(p));
}

/** P(Z <= x) for a standard normal Z. */
export function normalCdf(x: number): number {
  return ndtr(x);
}

/** Quantile of Student's t. `p` in (0, 1), `df` an integer >= 1; RangeError outside. */
export function studentQuantile(p: number, df: number): number {
  if (positiveInteger(df) <= LARGEST_DF) return stdtri(df, probability(p));
  const z = normalQuantile(p);
  return z + (z ** 3 + z) / (4 * df);
}

/** P(T <= t) for Student's t with an integer `df` >= 1. */
export function studentCdf(t: number, df: number): number {
  return positiveInteger(df) <= LARGEST_DF ? stdtr(df, t) : normalCdf(t - (t ** 3 + t) / (4 * df));
}

/** Quantile of Beta(a, b). `p` in (0, 1), `a`, `b` > 0. */
export function betaQuantile(p: number, a: number, b: number): number {
  return incbi(a, b, probability(p));
}

/** P(X <= x) for X ~ Beta(a, b), `x` in [0, 1]. */
export function betaCdf(x: number, a: number, b: number): number {
  return incbet(a, b, x);
}

/** ln B(a, b), `a`, `b` > 0. */
export function logBeta(a: number, b: number): number {
  return lbeta(a, b);
}

/** P(X <= k) for X ~ Binomial(n, p), integers 0 <= k <= n. */
export function binomialCdf(k: number, n: number, p: number): number {
  return bdtr(k, n, p);
}

function probability(p: number): number {
  if (!(p > 0 && p < 1)) throw new RangeError(`a probability must lie strictly between 0 and 1, got ${p}`);
  return p;
}

function positiveInteger(df: number): number {
  if (!Number.isInteger(df) || df < 1)
    throw new RangeError(`degrees of freedom must be an integer >= 1, got ${df}`);
  return df;
}
