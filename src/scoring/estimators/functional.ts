/** Linear functionals of the coalition rewards of one prompt, over the coalitions that were run. */
import type { Interval } from '../statistics/interval.ts';
import { grandMask } from './coalition.ts';
import {
  centred,
  coefficientAt,
  individual,
  loo,
  shapley,
  shapleyCompositional,
  type PlayerCoefficients,
} from './coefficients.ts';
import { interactionAt, synergyGrand } from './interactions.ts';

export interface Functional {
  /** Terms `[mask, coefficient]` with a coefficient other than 0, without the empty coalition. */
  readonly terms: readonly (readonly [mask: number, coefficient: number])[];
  /** The contribution of v(empty), which is a constant and not observed. */
  readonly constant: number;
}

/** Coefficients below this are rounding. */
const NEGLIGIBLE = 1e-14;

/** A functional from `coefficient(mask)` over all coalitions of n players. */
export function functionalOf(
  n: number,
  emptyValue: number,
  coefficient: (mask: number) => number,
): Functional {
  const terms: [number, number][] = [];
  for (let mask = 1; mask <= grandMask(n); mask += 1) {
    const weight = coefficient(mask);
    if (Math.abs(weight) > NEGLIGIBLE) terms.push([mask, weight]);
  }
  return { terms, constant: coefficient(0) * emptyValue };
}

/** The index of each player with these coefficients. */
export function playerFunctionals(
  n: number,
  emptyValue: number,
  coefficients: PlayerCoefficients,
): Functional[] {
  return Array.from({ length: n }, (_, i) =>
    functionalOf(n, emptyValue, (mask) => coefficientAt(coefficients, i, mask)),
  );
}

/** The player indices that panels estimate, by name. */
export function panelFunctionals(n: number, emptyValue: number) {
  const of = (coefficients: PlayerCoefficients) => playerFunctionals(n, emptyValue, coefficients);
  return {
    individual: of(individual(n)),
    loo: of(loo(n)),
    shapley: of(shapley(n)),
    shapleyCentered: of(centred(n, shapley(n))),
    shapleyCompositional: n === 1 ? [] : of(shapleyCompositional(n)),
  };
}

/** Synergy of i and j in the whole pool. */
export function synergyGrandFunctional(n: number, emptyValue: number, i: number, j: number): Functional {
  const weights = synergyGrand(n);
  return functionalOf(n, emptyValue, (mask) => interactionAt(weights, i, j, mask));
}

/** What the functional could be when every reward lies in [0, 1]. */
export function functionalRange({ terms, constant }: Functional): Interval {
  let [low, high] = [constant, constant];
  for (const [, weight] of terms) {
    if (weight < 0) low += weight;
    else high += weight;
  }
  return [low, high];
}

/** The functional of one prompt's rewards. */
export function applyFunctional({ terms, constant }: Functional, reward: (mask: number) => number): number {
  let sum = constant;
  for (const [mask, weight] of terms) sum += weight * reward(mask);
  return sum;
}
