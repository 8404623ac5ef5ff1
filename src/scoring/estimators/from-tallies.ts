/**
 * Estimates from a store's running sums: coalition values from cells, leave-one-out from pairs with the whole pool,
 * centred Shapley from duels, and all three kinds from functional rows. Every prompt counts as a cluster of its own,
 * which the sampling of at most one prompt per cluster makes true. The sums are integers, so the results do not depend
 * on the order in which rewards came.
 */
import {
  covarianceOfSums,
  meanOfSums,
  varianceOfSums,
  type IntegerSums,
} from '../statistics/integer-sums.ts';
import type { Interval } from '../statistics/interval.ts';
import { grandMask } from './coalition.ts';
import { duelConstant } from './duel.ts';
import type { PlayerEstimates } from './from-prompts.ts';
import { functionalRange, panelFunctionals } from './functional.ts';
import {
  measurePaired,
  measureReal,
  measureSequence,
  measureShare,
  type Measured,
  type SampleMean,
} from './measured.ts';
import {
  at,
  cellTally,
  duelCross,
  functionalCross,
  functionalTally,
  FUNCTIONAL_SCALE,
  pairTally,
  REWARD_SCALE,
  talliedMasks,
  type TallyFields,
} from './tally-fields.ts';

/** Functional rows by the letter of their columns: `u0`, `l0`, `c0` belong to the first member. */
const FUNCTIONAL_KINDS = { u: 'individual', l: 'loo', c: 'shapleyCentered' } as const;

export interface TallyOptions {
  /** Pool size. */
  readonly n: number;
  /** Confidence level, 0.95 by default. */
  readonly level?: number;
  /** `anytime` (default) for sums that grow while they are looked at; `fixed` for a closed sweep. */
  readonly validity?: 'anytime' | 'fixed';
  /** Count near which anytime intervals are tightest; 500 by default. */
  readonly tightAt?: number;
}

export interface TallyEstimates {
  /** v(S) of every coalition with a reward, by mask. */
  readonly cells: ReadonlyMap<number, Measured>;
  readonly grand?: Measured;
  /** By player; undefined where the pool was never run without it on a prompt that the pool ran too. */
  readonly loo: (LooEstimate | undefined)[];
  /** From duels. */
  readonly duel?: PlayerEstimates;
  /** From functional rows. */
  readonly individual?: PlayerEstimates;
  readonly panelLoo?: PlayerEstimates;
  readonly shapleyCentered?: PlayerEstimates;
  /** For v(empty) = 0. */
  readonly shapley?: PlayerEstimates;
}

export interface LooEstimate extends Measured {
  /** Prompts where the pool did better than without the player, and worse. */
  readonly wins: number;
  readonly losses: number;
  /** Whether all differences were -1, 0 or 1, so that e-McNemar applies to wins and losses. */
  readonly binary: boolean;
}

/** All estimates that the sums allow; a kind without any row is left out, never taken for zero. */
export function fromTallies(fields: TallyFields, options: TallyOptions): TallyEstimates {
  const { n } = options;
  const cells = new Map(talliedMasks(fields).map((mask) => [mask, cell(fields, mask, options)]));
  const grand = cells.get(grandMask(n));
  const loo = Array.from({ length: n }, (_, i) => pair(fields, grandMask(n) & ~(1 << i), options));
  const duel = duels(fields, options);
  const individual = functionals(fields, 'u', options);
  const panelLoo = functionals(fields, 'l', options);
  const shapleyCentered = functionals(fields, 'c', options);
  const shapley = shapleyFromRows(fields, options);
  return {
    cells,
    loo,
    ...(grand === undefined ? {} : { grand }),
    ...(duel === undefined ? {} : { duel }),
    ...(individual === undefined ? {} : { individual }),
    ...(panelLoo === undefined ? {} : { panelLoo }),
    ...(shapleyCentered === undefined ? {} : { shapleyCentered }),
    ...(shapley === undefined ? {} : { shapley }),
  };
}

function cell(fields: TallyFields, mask: number, options: TallyOptions): Measured {
  const tally = cellTally(fields, mask);
  const mean = sampleMean(tally, REWARD_SCALE, [0, 1], options);
  // r^2 = 10,000 r for every r exactly when each of them is 0 or 10,000.
  const binary = tally.sumSquares === tally.sum * BigInt(REWARD_SCALE);
  return measure(mean, options, () => (binary ? measureShare(mean) : measureReal(mean)));
}

function pair(fields: TallyFields, mask: number, options: TallyOptions): LooEstimate | undefined {
  const tally = pairTally(fields, mask);
  if (mask === 0 || tally.n <= 0n) return undefined;
  const mean = sampleMean({ ...tally, sum: -tally.sum }, REWARD_SCALE, [-1, 1], options);
  const [wins, losses] = [Number(tally.negative), Number(tally.positive)];
  const binary = tally.sumSquares === BigInt(REWARD_SCALE) ** 2n * (tally.negative + tally.positive);
  const measured = measure(mean, options, () =>
    binary ? measurePaired(mean, wins, losses) : measureReal(mean),
  );
  return { ...measured, ...(binary ? { discordant: wins + losses } : {}), wins, losses, binary };
}

function duels(fields: TallyFields, options: TallyOptions): PlayerEstimates | undefined {
  const { n } = options;
  const rows = at(fields, 'D:n');
  if (n < 2 || rows <= 0n) return undefined;
  const factor = duelConstant(n) / 2;
  const reach = factor * (n - 1);
  const players = Array.from({ length: n }, (_, i) => i);
  const sums = players.map((i) => at(fields, `D:${i}`));
  const cross = players.map((i) => players.map((j) => duelCross(fields, i, j)));
  const ranges = players.map((): Interval => [-reach, reach]);
  return fromSums(rows, sums, cross, REWARD_SCALE / factor, ranges, options);
}

/** Undefined unless every member has the same rows: a covariance needs common prompts. */
function functionals(
  fields: TallyFields,
  letter: keyof typeof FUNCTIONAL_KINDS,
  options: TallyOptions,
): PlayerEstimates | undefined {
  const names = Array.from({ length: options.n }, (_, i) => `${letter}${i}`);
  const rows = commonRows(fields, names);
  if (rows === undefined) return undefined;
  const ranges = panelFunctionals(options.n, 0)[FUNCTIONAL_KINDS[letter]].map(functionalRange);
  const sums = names.map((name) => functionalTally(fields, name).sum);
  const cross = names.map((a) => names.map((b) => functionalCross(fields, a, b)));
  return fromSums(rows, sums, cross, FUNCTIONAL_SCALE, ranges, options);
}

/** phi_i = phi0_i + v(N)/n, from the columns `c<i>` and `g`: n times phi_i is a sum of integers. */
function shapleyFromRows(fields: TallyFields, options: TallyOptions): PlayerEstimates | undefined {
  const { n } = options;
  const names = Array.from({ length: n }, (_, i) => `c${i}`);
  const rows = commonRows(fields, [...names, 'g']);
  if (rows === undefined) return undefined;
  const size = BigInt(n);
  const grand = functionalTally(fields, 'g');
  const sums = names.map((name) => size * functionalTally(fields, name).sum + grand.sum);
  const cross = names.map((a) =>
    names.map((b) => {
      const mixed = functionalCross(fields, a, 'g') + functionalCross(fields, b, 'g');
      return size * size * functionalCross(fields, a, b) + size * mixed + grand.sumSquares;
    }),
  );
  const ranges = panelFunctionals(n, 0).shapley.map(functionalRange);
  return fromSums(rows, sums, cross, FUNCTIONAL_SCALE * n, ranges, options);
}

function commonRows(fields: TallyFields, names: readonly string[]): bigint | undefined {
  const rows = names.map((name) => functionalTally(fields, name).n);
  const [first = 0n] = rows;
  return first > 0n && rows.every((count) => count === first) ? first : undefined;
}

/** Means of several integer series over the same rows, with their covariance. */
function fromSums(
  rows: bigint,
  sums: readonly bigint[],
  cross: readonly (readonly bigint[])[],
  scale: number,
  ranges: readonly Interval[],
  options: TallyOptions,
): PlayerEstimates {
  const estimates = sums.map((sum, i) => {
    const series = { n: rows, sum, sumSquares: cross[i]?.[i] ?? 0n };
    const mean = sampleMean(series, scale, ranges[i] ?? [-1, 1], options);
    return measure(mean, options, () => measureReal(mean));
  });
  const covariance = sums.map((a, i) =>
    sums.map((b, j) => covarianceOfSums(rows, a, b, cross[i]?.[j] ?? 0n, scale) / Number(rows)),
  );
  return { estimates, covariance };
}

function sampleMean(
  sums: IntegerSums,
  scale: number,
  range: Interval,
  { level = 0.95 }: TallyOptions,
): SampleMean {
  const n = Number(sums.n);
  const variance = varianceOfSums(sums, scale) / n;
  return { value: meanOfSums(sums, scale), variance, clusters: n, n, range, level };
}

function measure(
  mean: SampleMean,
  { validity, tightAt = 500 }: TallyOptions,
  fixed: () => Measured,
): Measured {
  return validity === 'fixed' ? fixed() : measureSequence(mean, tightAt);
}
