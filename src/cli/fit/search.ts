/**
 * Looks for good options of a system on one half of a data set, and measures what it found on the other half. On the
 * first half the best of many is too good by chance, so its value there is no estimate of anything.
 */
import { createHash } from 'node:crypto';
import type { Random } from '../../contract/capabilities.ts';
import { ConsortError } from '../../contract/errors.ts';
import type { TaskRow } from '../../contract/task.ts';
import type { System } from '../../gateway/catalog.ts';
import type { Options, OptionSearch } from '../../gateway/protocols/protocol.ts';
import { planOf } from '../../gateway/resolve.ts';
import { pairedMeans, type PairedMeans } from '../../scoring/estimators/paired-means.ts';
import { localSearch } from '../../scoring/local-search.ts';
import { verifiers } from '../../scoring/rewards/index.ts';
import type { Spent } from '../../scoring/sweep/graded-run.ts';
import { Trials } from '../../scoring/sweep/trials.ts';
import { clock, newId } from '../natives.ts';
import type { RunningSystem } from '../system.ts';

export interface OptionFitting {
  readonly system: System;
  readonly rows: readonly TaskRow[];
  readonly seed: number;
  /** The most options that are tried, those of the configuration included. */
  readonly evaluations: number;
  readonly temperature?: number;
  /** Prompts under way at once. */
  readonly concurrency: number;
  readonly signal: AbortSignal;
  /** Called after each that was tried. */
  readonly onTried: (tried: number) => void;
}

export interface FittedOptions {
  /** The best found; those of the configuration, written out, when nothing was better. */
  readonly options: Options;
  readonly tried: number;
  /** Mean rewards on the half that was searched, of the best and of the configuration's: for the record only. */
  readonly searched: { readonly prompts: number; readonly best: number; readonly configured: number };
  /** On the other half: `first` is the best found, `second` the configuration's. Absent when that was the best. */
  readonly measured?: PairedMeans;
  /** Prompts of the other half that a grader gave no reward. */
  readonly excluded: number;
  readonly spent: Spent;
}

/** Clusters alternate between the halves in the order of their first row. */
function halvesOf(rows: readonly TaskRow[]): [TaskRow[], TaskRow[]] {
  const nameOf = ({ cluster, id }: TaskRow) => cluster ?? id;
  const sides = new Map<string, number>();
  for (const row of rows) if (!sides.has(nameOf(row))) sides.set(nameOf(row), sides.size % 2);
  const half = (side: number) => rows.filter((row) => sides.get(nameOf(row)) === side);
  return [half(0), half(1)];
}

/** Chance by name from a seed. */
function chanceOf(seed: number): Random {
  return (label) => createHash('sha256').update(`${seed}\0${label}`).digest().readUIntBE(0, 6) / 2 ** 48;
}

function searchOf({ id, protocol, pool }: System): OptionSearch<Options> {
  if (!protocol.search)
    throw new ConsortError('usage', [`protocol ${protocol.name} of ${id} has no options to search`]);
  if (pool.merges) throw new ConsortError('usage', [`the coalitions of pool ${pool.id} run as one model`]);
  return protocol.search;
}

/** Mean of the rewards that there are; 0 without one. */
function meanOf(rewards: readonly (number | null)[]): number {
  const known = rewards.filter((reward) => reward !== null);
  return known.reduce((sum, reward) => sum + reward, 0) / Math.max(1, known.length);
}

function trialsOf({ run }: Pick<RunningSystem, 'run'>, rows: readonly TaskRow[], fitting: OptionFitting) {
  const { temperature, concurrency, signal } = fitting;
  const sampling = temperature === undefined ? {} : { temperature };
  return new Trials(rows, { run, verifiers, clock, sampling, concurrency, signal });
}

/**
 * @throws `usage` when there is nothing to search or only one cluster; the signal's reason when it was stopped
 */
export async function fitOptions(
  running: Pick<RunningSystem, 'catalog' | 'run'>,
  fitting: OptionFitting,
): Promise<FittedOptions> {
  const { system, rows, seed, evaluations } = fitting;
  const { start, nextTo, draw, keyOf } = searchOf(system);
  const [searched, others] = halvesOf(rows);
  if (others.length === 0)
    throw new ConsortError('usage', [
      'a search needs tasks of two clusters or more: one half to search, one to measure',
    ]);
  const planFor = (options: Options) => (row: TaskRow) => {
    const promptInstance = `${seed}/${row.id}`;
    const identity = { id: newId(), seed: String(seed), promptInstance, tenant: 'fit' };
    const parts = { catalog: running.catalog, maxStreamMs: Number.MAX_SAFE_INTEGER };
    return planOf(
      parts,
      system,
      { options, ...(row.cluster !== undefined && { cluster: row.cluster }) },
      identity,
    );
  };
  const trials = trialsOf(running, searched, fitting);
  let tried = 0;
  const evaluate = async (options: Options) => {
    const value = meanOf(await trials.rewards(planFor(options)));
    fitting.onTried(++tried);
    return value;
  };
  const configured = start(
    system.options,
    system.pool.members.map(({ alias }) => alias),
  );
  const space = { start: configured, nextTo, draw: (random: Random) => draw(configured, random), keyOf };
  const found = await localSearch(space, evaluate, { evaluations, random: chanceOf(seed) });
  const record = { prompts: searched.length, best: found.value, configured: found.startValue };
  const result = { options: found.best, tried: found.evaluations, searched: record };
  if (keyOf(found.best) === keyOf(configured)) return { ...result, excluded: 0, spent: trials.spent };
  const fresh = trialsOf(running, others, fitting);
  const first = await fresh.rewards(planFor(found.best));
  const second = await fresh.rewards(planFor(configured));
  return { ...result, ...measure(others, first, second), spent: sumOf(trials.spent, fresh.spent) };
}

function measure(
  rows: readonly TaskRow[],
  first: readonly (number | null)[],
  second: readonly (number | null)[],
) {
  const pairs = rows.flatMap(({ id, cluster = id }, index) => {
    const [one, other] = [first[index], second[index]];
    return typeof one === 'number' && typeof other === 'number'
      ? [{ cluster, first: one, second: other }]
      : [];
  });
  return { excluded: rows.length - pairs.length, ...(pairs.length > 0 && { measured: pairedMeans(pairs) }) };
}

function sumOf(one: Spent, other: Spent): Spent {
  return {
    calls: one.calls + other.calls,
    reused: one.reused + other.reused,
    costMicros: one.costMicros + other.costMicros,
  };
}
