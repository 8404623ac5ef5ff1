/**
 * Estimates from a closed panel: the same prompts run by every coalition of the design. Each prompt gives one value of
 * each functional; estimates are their means and the doubt comes from the variation between prompts, or clusters of
 * them. Rewards of one prompt may depend on each other in any way (shared calls), prompts of different clusters not.
 */
import { ConsortError } from '../../contract/errors.ts';
import { clusteredMeans } from '../statistics/clustered-means.ts';
import { coalitionName, grandMask } from './coalition.ts';
import {
  applyFunctional,
  functionalRange,
  panelFunctionals,
  synergyGrandFunctional,
  type Functional,
} from './functional.ts';
import { measurePaired, measureReal, measureShare, type Measured, type SampleMean } from './measured.ts';

export interface Panel {
  readonly players: readonly string[];
  /** `full`: every non-empty coalition. `loo`: the whole pool and the pool less each player; others are optional. */
  readonly design: 'full' | 'loo';
  /** The coalitions that were run. */
  readonly masks: readonly number[];
  readonly prompts: readonly PromptRewards[];
  /** Confidence level of the intervals, 0.95 by default. */
  readonly level?: number;
  /** v(empty), a constant; 0 by default. */
  readonly emptyValue?: number;
}

export interface PromptRewards {
  /** Prompts of one conversation, template or user share a cluster. */
  readonly cluster: string;
  /** Rewards in [0, 1], in the order of `masks`. */
  readonly rewards: ArrayLike<number>;
}

/** One estimate a player, in the order of `players`, and the covariance of these estimates. */
export interface PlayerEstimates {
  readonly estimates: Measured[];
  readonly covariance: number[][];
}

export interface PanelEstimates {
  /** v(N). */
  readonly grand: Measured;
  /** v(S) of every coalition that was run, by mask. */
  readonly cells: ReadonlyMap<number, Measured>;
  readonly loo: PlayerEstimates;
  /** The others are there when the coalitions that they need were run. */
  readonly individual?: PlayerEstimates;
  readonly shapley?: PlayerEstimates;
  readonly shapleyCentered?: PlayerEstimates;
  readonly shapleyCompositional?: PlayerEstimates;
  /** `[i][j]`; undefined on the diagonal and where N without i and j was not run. */
  readonly synergyGrand: (Measured | undefined)[][];
}

/**
 * All estimates that the panel allows. ConsortError `game_invalid` when a coalition of the design is missing (they are
 * listed), there is no prompt, or a reward is not a number in [0, 1].
 */
export function fromPrompts(panel: Panel): PanelEstimates {
  checkPanel(panel);
  const n = panel.players.length;
  const empty = panel.emptyValue ?? 0;
  const measure = measurer(panel);
  const has = new Set(panel.masks);
  const { loo, ...others } = panelFunctionals(n, empty);
  const possible = Object.entries(others).filter(
    ([, functionals]) =>
      functionals.length === n && functionals.every((f) => f.terms.every(([mask]) => has.has(mask))),
  );
  const cells = measure(panel.masks.map((mask) => ({ terms: [[mask, 1]], constant: 0 })));
  const byMask = new Map(panel.masks.map((mask, index) => [mask, cells.estimates[index]!]));
  return {
    grand: byMask.get(grandMask(n))!,
    cells: byMask,
    loo: measure(loo),
    ...Object.fromEntries(possible.map(([name, functionals]) => [name, measure(functionals)])),
    synergyGrand: synergies(n, empty, has, measure),
  };
}

type Measure = (functionals: readonly Functional[]) => PlayerEstimates;

function measurer({ masks, prompts, level = 0.95 }: Panel): Measure {
  const column = new Map(masks.map((mask, index) => [mask, index]));
  const clusters = prompts.map(({ cluster }) => cluster);
  const isBinary = masks.map((_, k) => prompts.every(({ rewards }) => rewards[k] === 0 || rewards[k] === 1));
  return (functionals) => {
    const rows = prompts.map(({ rewards }) =>
      functionals.map((f) => applyFunctional(f, (mask) => rewards[column.get(mask) ?? -1] ?? NaN)),
    );
    const joint = clusteredMeans(rows, clusters);
    const estimates = functionals.map((functional, k) => {
      const mean: SampleMean = {
        value: joint.means[k] ?? NaN,
        variance: joint.covariance[k]?.[k] ?? NaN,
        clusters: joint.clusters,
        n: joint.n,
        range: functionalRange(functional),
        level,
      };
      const binary = functional.terms.every(([mask]) => isBinary[column.get(mask) ?? -1] === true);
      return measureOne(functional, mean, binary ? rows.map((row) => row[k] ?? NaN) : undefined);
    });
    return { estimates, covariance: joint.covariance };
  };
}

/** `values` are given when all rewards involved are 0 or 1. */
function measureOne(
  { terms, constant }: Functional,
  mean: SampleMean,
  values: number[] | undefined,
): Measured {
  if (values === undefined || constant !== 0) return measureReal(mean);
  const weights = terms.map(([, weight]) => weight);
  if (weights.length === 1 && weights[0] === 1) return measureShare(mean);
  const isPair = weights.length === 2 && weights.includes(1) && weights.includes(-1);
  if (!isPair) return measureReal(mean);
  const wins = values.filter((value) => value > 0).length;
  return measurePaired(mean, wins, values.filter((value) => value < 0).length);
}

function synergies(
  n: number,
  empty: number,
  has: ReadonlySet<number>,
  measure: Measure,
): (Measured | undefined)[][] {
  const matrix = Array.from({ length: n }, () => new Array<Measured | undefined>(n).fill(undefined));
  for (let i = 0; i < n; i += 1) {
    for (let j = 0; j < i; j += 1) {
      const functional = synergyGrandFunctional(n, empty, i, j);
      if (!functional.terms.every(([mask]) => has.has(mask))) continue;
      matrix[i]![j] = matrix[j]![i] = measure([functional]).estimates[0];
    }
  }
  return matrix;
}

function checkPanel({ players, design, masks, prompts }: Panel): void {
  const grand = grandMask(players.length);
  const needed = design === 'full' ? Array.from({ length: grand }, (_, index) => index + 1) : [grand];
  if (design === 'loo') players.forEach((_, i) => needed.push(grand & ~(1 << i)));
  const missing = needed.filter((mask) => mask !== 0 && !masks.includes(mask));
  if (missing.length > 0) {
    const names = missing.slice(0, 20).map((mask) => `"${coalitionName(mask, players)}"`);
    throw invalid(`${missing.length} coalitions of the design ${design} were not run: ${names.join(', ')}`);
  }
  if (prompts.length === 0) throw invalid('there are no prompts');
  prompts.forEach(({ rewards }, index) => {
    if (rewards.length !== masks.length) throw invalid(`prompt ${index} has ${rewards.length} rewards`);
    for (let k = 0; k < masks.length; k += 1) {
      const reward = rewards[k] ?? NaN;
      const name = coalitionName(masks[k] ?? 0, players);
      if (!(reward >= 0 && reward <= 1))
        throw invalid(`the reward of "${name}" on prompt ${index} is ${reward}`);
    }
  });
}

function invalid(reason: string): ConsortError {
  return new ConsortError('game_invalid', [reason]);
}
