/**
 * The running sums that a store keeps, as fields of integers (docs/reference/data-model.md). Rewards are scaled by
 * 10,000, functionals by 100,000. Sums add: a window is the field-wise sum of its buckets.
 */
import type { IntegerSums } from '../statistics/integer-sums.ts';

export type TallyFields = ReadonlyMap<string, bigint>;

/** Rewards are stored as `round(10,000 * reward)`. */
export const REWARD_SCALE = 10_000;
/** Functionals are stored as `round(100,000 * d)`. */
export const FUNCTIONAL_SCALE = 100_000;

/** `<mask>:n, s, q`: count, sum and sum of squares of the rewards; `x`: runs without a reward. */
export interface CellTally extends IntegerSums {
  readonly missing: bigint;
}

/** `<mask>:dn, ds, dq, dp, dm`: reward of the coalition less that of the whole pool on the same prompt. */
export interface PairTally extends IntegerSums {
  readonly positive: bigint;
  readonly negative: bigint;
}

/** Fields as they come from a store or a file; RangeError for a value that is no integer. */
export function parseTallies(entries: Iterable<readonly [string, bigint | number | string]>): TallyFields {
  const fields = new Map<string, bigint>();
  for (const [field, value] of entries) {
    const isInteger =
      typeof value === 'string'
        ? /^-?\d+$/.test(value)
        : typeof value === 'bigint' || Number.isSafeInteger(value);
    if (!isInteger) throw new RangeError(`the tally ${field} is no integer: ${value}`);
    fields.set(field, BigInt(value));
  }
  return fields;
}

/** The sums of several buckets together. */
export function addTallies(buckets: Iterable<TallyFields>): TallyFields {
  const total = new Map<string, bigint>();
  for (const bucket of buckets) {
    for (const [field, value] of bucket) total.set(field, (total.get(field) ?? 0n) + value);
  }
  return total;
}

/** Masks that have any reward, ascending. */
export function talliedMasks(fields: TallyFields): number[] {
  const masks: number[] = [];
  for (const [field, count] of fields) {
    const match = /^(\d{1,7}):n$/.exec(field);
    if (match !== null && count > 0n) masks.push(Number(match[1]));
  }
  return masks.toSorted((a, b) => a - b);
}

export function cellTally(fields: TallyFields, mask: number): CellTally {
  return { ...sumsAt(fields, `${mask}:`, 'n', 's', 'q'), missing: at(fields, `${mask}:x`) };
}

export function pairTally(fields: TallyFields, mask: number): PairTally {
  const sums = sumsAt(fields, `${mask}:`, 'dn', 'ds', 'dq');
  return { ...sums, positive: at(fields, `${mask}:dp`), negative: at(fields, `${mask}:dm`) };
}

/** `F:<f>:n, s, q`: rows, sum and sum of squares of a functional. */
export function functionalTally(fields: TallyFields, name: string): IntegerSums {
  return sumsAt(fields, `F:${name}:`, 'n', 's', 'q');
}

/** `F:<f>:<g>`: sum of products of two functionals, stored in either order; `F:<f>:q` for one with itself. */
export function functionalCross(fields: TallyFields, f: string, g: string): bigint {
  if (f === g) return at(fields, `F:${f}:q`);
  return fields.get(`F:${f}:${g}`) ?? at(fields, `F:${g}:${f}`);
}

/** `D:i:j` with i <= j: sum of products of the duel scores of two players. */
export function duelCross(fields: TallyFields, i: number, j: number): bigint {
  return at(fields, `D:${Math.min(i, j)}:${Math.max(i, j)}`);
}

/** A field, 0 when it was never written. */
export function at(fields: TallyFields, field: string): bigint {
  return fields.get(field) ?? 0n;
}

function sumsAt(fields: TallyFields, prefix: string, n: string, sum: string, squares: string): IntegerSums {
  return {
    n: at(fields, prefix + n),
    sum: at(fields, prefix + sum),
    sumSquares: at(fields, prefix + squares),
  };
}
