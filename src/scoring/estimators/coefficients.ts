/**
 * Every index of a player is a linear functional of the game, `theta_i = sum over S of a_i(S) v(S)`, whose coefficient
 * depends only on the size of S and on whether i is in it. Values, variances and budgets all follow from these.
 */
import { choose, coalitionSize, hasPlayer } from './coalition.ts';

export interface PlayerCoefficients {
  /** By size: the coefficient of coalitions with the player. `[0]` is unused. */
  readonly own: Float64Array;
  /** By size: the coefficient of coalitions without the player. `[n]` is unused. */
  readonly other: Float64Array;
}

/** The mean over S without i, |S| = s, of v(S+i) - v(S). */
export function marginalOfSize(n: number, s: number): PlayerCoefficients {
  const { own, other } = noCoefficients(n);
  own[s + 1] = 1 / choose(n - 1, s);
  other[s] = -1 / choose(n - 1, s);
  return { own, other };
}

/**
 * A semivalue (Dubey, Neyman & Weber 1981): `sum over s of weights[s] * C(n-1, s) * marginalOfSize(s)`. `weights[s]`
 * is the weight of one coalition of size s; RangeError unless the n of them give a total of 1.
 */
export function semivalue(n: number, weights: readonly number[]): PlayerCoefficients {
  const total = weights.reduce((sum, weight, s) => sum + weight * choose(n - 1, s), 0);
  if (weights.length !== n || !(Math.abs(total - 1) < 1e-9)) {
    throw new RangeError(
      `a semivalue of ${n} players needs ${n} weights with sum C(n-1,s) w_s = 1, got ${total}`,
    );
  }
  const { own, other } = noCoefficients(n);
  weights.forEach((weight, s) => {
    own[s + 1] = weight;
    other[s] = -weight;
  });
  return { own, other };
}

/** Shapley 1953: every size of coalition counts alike. */
export function shapley(n: number): PlayerCoefficients {
  return semivalue(
    n,
    sizes(n, (s) => 1 / (n * choose(n - 1, s))),
  );
}

/** Banzhaf 1965: every coalition counts alike. */
export function banzhaf(n: number): PlayerCoefficients {
  return semivalue(
    n,
    sizes(n, () => 2 ** (1 - n)),
  );
}

/** Leave-one-out: v(N) - v(N-i). */
export function loo(n: number): PlayerCoefficients {
  return marginalOfSize(n, n - 1);
}

/** v({i}). */
export function individual(n: number): PlayerCoefficients {
  const { own, other } = noCoefficients(n);
  own[1] = 1;
  return { own, other };
}

/** v({i}) - v(empty). */
export function individualMarginal(n: number): PlayerCoefficients {
  return marginalOfSize(n, 0);
}

/** Shapley without the solo term: the mean of the marginals into non-empty coalitions. NaN for one player. */
export function shapleyCompositional(n: number): PlayerCoefficients {
  return semivalueOf(n, (s) => (s === 0 ? 0 : 1 / ((n - 1) * choose(n - 1, s))));
}

/** The mean of the first and the last marginal. */
export function twoEnded(n: number): PlayerCoefficients {
  return combine(n, [
    [0.5, individualMarginal(n)],
    [0.5, loo(n)],
  ]);
}

/** A functional less its mean over the players: credit relative to the average player, free of v(empty) for Shapley. */
export function centred(n: number, { own, other }: PlayerCoefficients): PlayerCoefficients {
  const mean = (s: number) => (s * (own[s] ?? 0) + (n - s) * (other[s] ?? 0)) / n;
  return { own: own.map((value, s) => value - mean(s)), other: other.map((value, s) => value - mean(s)) };
}

/** A functional shifted by the same amount for all players so that it sums to v(N) - v(empty). */
export function efficient(n: number, coefficients: PlayerCoefficients): PlayerCoefficients {
  const { own, other } = centred(n, coefficients);
  own[n]! += 1 / n;
  other[0]! -= 1 / n;
  return { own, other };
}

/** `a_i(S)` for the coalition `mask`. */
export function coefficientAt({ own, other }: PlayerCoefficients, i: number, mask: number): number {
  return (hasPlayer(mask, i) ? own : other)[coalitionSize(mask)] ?? 0;
}

/** `a_i(S)` for all 2^n coalitions, by mask. */
export function coefficientVector(n: number, coefficients: PlayerCoefficients, i: number): Float64Array {
  return new Float64Array(2 ** n).map((_, mask) => coefficientAt(coefficients, i, mask));
}

/** `sum over S of a_i(S)^2`: the variance of an estimate whose coalitions are independent with variance 1. */
export function sumOfSquares(n: number, { own, other }: PlayerCoefficients): number {
  let sum = 0;
  for (let s = 0; s <= n; s += 1) {
    sum += choose(n - 1, s - 1) * (own[s] ?? 0) ** 2 + choose(n - 1, s) * (other[s] ?? 0) ** 2;
  }
  return sum;
}

function semivalueOf(n: number, weight: (s: number) => number): PlayerCoefficients {
  const { own, other } = noCoefficients(n);
  for (let s = 0; s < n; s += 1) {
    own[s + 1] = n === 1 ? NaN : weight(s);
    other[s] = n === 1 ? NaN : -weight(s);
  }
  return { own, other };
}

function combine(n: number, terms: readonly (readonly [number, PlayerCoefficients])[]): PlayerCoefficients {
  const { own, other } = noCoefficients(n);
  for (const [factor, part] of terms) {
    part.own.forEach((value, s) => (own[s]! += factor * value));
    part.other.forEach((value, s) => (other[s]! += factor * value));
  }
  return { own, other };
}

function noCoefficients(n: number): { own: Float64Array; other: Float64Array } {
  if (!Number.isInteger(n) || n < 1) throw new RangeError(`a game needs at least one player, got ${n}`);
  return { own: new Float64Array(n + 1), other: new Float64Array(n + 1) };
}

function sizes(n: number, weight: (s: number) => number): number[] {
  return Array.from({ length: n }, (_, s) => weight(s));
}
