/**
 * Empirical-Bernstein confidence sequence for the mean of values in [0, 1] (Waudby-Smith & Ramdas 2024, predictable
 * mixture). Finite-sample and anytime-valid, but order-dependent: one writer, constant state.
 */
import type { Interval } from './interval.ts';

export interface BernsteinState {
  readonly alpha: number;
  /** Values seen. */
  readonly t: number;
  readonly sum: number;
  /** Sum of squared distances to the running mean. */
  readonly squares: number;
  readonly mean: number;
  readonly variance: number;
  readonly weight: number;
  readonly weightedSum: number;
  readonly penalty: number;
  /** Intersection of all looks so far. */
  readonly interval: Interval;
}

const LARGEST_BET = 0.5;

/** The state before the first value, at confidence `1 - alpha`. */
export function startBernstein(alpha: number): BernsteinState {
  const empty = {
    t: 0,
    sum: 0,
    squares: 0,
    mean: 0.5,
    variance: 0.25,
    weight: 0,
    weightedSum: 0,
    penalty: 0,
  };
  return { ...empty, alpha, interval: [0, 1] };
}

/** The state after one more value; RangeError outside [0, 1]. */
export function addBernstein(state: BernsteinState, x: number): BernsteinState {
  if (!(x >= 0 && x <= 1)) throw new RangeError(`values must lie in [0, 1], got ${x}`);
  const t = state.t + 1;
  const bet = Math.min(
    Math.sqrt((2 * Math.log(2 / state.alpha)) / (state.variance * t * Math.log1p(t))),
    LARGEST_BET,
  );
  const sum = state.sum + x;
  const mean = (0.5 + sum) / (t + 1);
  const squares = state.squares + (x - mean) ** 2;
  const next = {
    alpha: state.alpha,
    t,
    sum,
    squares,
    mean,
    variance: (0.25 + squares) / (t + 1),
    weight: state.weight + bet,
    weightedSum: state.weightedSum + bet * x,
    penalty: state.penalty + (x - state.mean) ** 2 * (-Math.log1p(-bet) - bet),
    interval: state.interval,
  };
  const { center, radius } = bernsteinLook(next);
  const [low, high] = state.interval;
  return { ...next, interval: [Math.max(low, center - radius), Math.min(high, center + radius)] };
}

/** The newest look alone, before the intersection with earlier ones; needs one value. */
export function bernsteinLook(state: BernsteinState): { center: number; radius: number } {
  const { alpha, weight, weightedSum, penalty } = state;
  return { center: weightedSum / weight, radius: (Math.log(2 / alpha) + penalty) / weight };
}
