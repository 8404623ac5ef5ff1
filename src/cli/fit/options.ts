/**
 * Fits options of a system on one half of a data set, by what its protocol computes from members' own answers or by
 * search, and measures them on the other half, against the options of the configuration and against the best single
 * member. On the first half whatever was fitted is too good by chance, so its value there is no estimate of anything.
 */
import { createHash } from 'node:crypto';
import type { Random } from '../../contract/capabilities.ts';
import { ConsortError } from '../../contract/errors.ts';
import type { TaskRow } from '../../contract/task.ts';
import type { Plan } from '../../contract/plan.ts';
import { optionsFor, type System } from '../../gateway/catalog.ts';
import type { Options, OptionSearch } from '../../gateway/protocols/protocol.ts';
import type { OptionFit } from '../../gateway/protocols/solo.ts';
import { planOf, type PlanChoices } from '../../gateway/resolve.ts';
import { pairedMeans, type PairedMeans } from '../../scoring/estimators/paired-means.ts';
import { localSearch } from '../../scoring/local-search.ts';
import { verifiers } from '../../scoring/rewards/index.ts';
import type { Spent } from '../../scoring/sweep/graded-run.ts';
import { Trials } from '../../scoring/sweep/trials.ts';
import { clock, newId } from '../natives.ts';
import type { RunningSystem } from '../system.ts';
import { soloRows } from './solo-rows.ts';

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
  /** The fitted; those of the configuration, written out, when a search found nothing better. */
  readonly options: Options;
  /** Options that a search has tried; 0 where they are computed. */
  readonly tried: number;
  /** On the half that was fitted: its prompts and, by search, mean rewards, for the record only. */
  readonly fitted: { readonly prompts: number; readonly best?: number; readonly configured?: number };
  /** On the other half: `first` is the fitted, `second` the configuration's. Absent when they are the same. */
  readonly measured?: PairedMeans;
  /** On the other half: `first` is the fitted, `second` the member that was best alone on the half that was fitted. */
  readonly against?: { readonly single: string; readonly measured: PairedMeans };
  /** Prompts of the other half that a grader gave no reward. */
  readonly excluded: number;
  readonly spent: Spent;
}

const nameOf = ({ cluster, id }: TaskRow) => cluster ?? id;
const clustersOf = (rows: readonly TaskRow[]) => new Set(rows.map(nameOf)).size;

/** Half of the clusters each, by chance: an order of the tasks, such as kinds in turn, must not sort the halves. */
function halvesOf(rows: readonly TaskRow[], random: Random): [TaskRow[], TaskRow[]] {
  const names = [...new Set(rows.map(nameOf))].map((name) => ({ name, key: random(`half/${name}`) }));
  const drawn = names.toSorted((a, b) => a.key - b.key).map(({ name }) => name);
  const first = new Set(drawn.slice(0, Math.ceil(drawn.length / 2)));
  return [rows.filter((row) => first.has(nameOf(row))), rows.filter((row) => !first.has(nameOf(row)))];
}

/** Chance by name from a seed. */
function chanceOf(seed: number): Random {
  return (label) => createHash('sha256').update(`${seed}\0${label}`).digest().readUIntBE(0, 6) / 2 ** 48;
}

function checkFittable({ id, protocol, pool }: System): void {
  if (!protocol.search && !protocol.fit)
    throw new ConsortError('usage', [`protocol ${protocol.name} of ${id} has no options that can be fitted`]);
  if (pool.merges) throw new ConsortError('usage', [`the coalitions of pool ${pool.id} run as one model`]);
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

/** Fewer clusters in a half tell nothing. */
const LEAST_CLUSTERS = 10;

/** What was fitted, and what that took. */
type Found = Pick<FittedOptions, 'options' | 'tried' | 'fitted' | 'spent'>;
type PlanFor = (choices: PlanChoices) => (row: TaskRow) => Plan;
type Running = Pick<RunningSystem, 'catalog' | 'run'>;

function plansOf({ catalog }: Running, { system, seed }: OptionFitting): PlanFor {
  const parts = { catalog, maxStreamMs: Number.MAX_SAFE_INTEGER };
  return (choices) => (row) => {
    const promptInstance = `${seed}/${row.id}`;
    const identity = { id: newId(), seed: String(seed), promptInstance, tenant: 'fit' };
    const cluster = row.cluster === undefined ? {} : { cluster: row.cluster };
    return planOf(parts, system, { ...choices, ...cluster }, identity);
  };
}

async function searched(
  running: Running,
  fitting: OptionFitting,
  rows: readonly TaskRow[],
  { start, nextTo, draw, keyOf }: OptionSearch<Options>,
  planFor: PlanFor,
): Promise<Found & { configured: Options }> {
  const { system, seed, evaluations } = fitting;
  const trials = trialsOf(running, rows, fitting);
  let tried = 0;
  const evaluate = async (options: Options) => {
    const value = meanOf(await trials.rewards(planFor({ options })));
    fitting.onTried(++tried);
    return value;
  };
  const configured = start(
    system.options,
    system.pool.members.map(({ alias }) => alias),
  );
  const space = { start: configured, nextTo, draw: (random: Random) => draw(configured, random), keyOf };
  const found = await localSearch(space, evaluate, { evaluations, random: chanceOf(seed) });
  const fitted = { prompts: rows.length, best: found.value, configured: found.startValue };
  return { options: found.best, tried: found.evaluations, fitted, spent: trials.spent, configured };
}

async function computed(
  { run }: Running,
  fitting: OptionFitting,
  rows: readonly TaskRow[],
  { samples, fit }: OptionFit<Options>,
  planFor: PlanFor,
): Promise<Found & { configured: Options }> {
  const { system, temperature, concurrency, signal } = fitting;
  const aliases = system.pool.members.map(({ alias }) => alias);
  const sampling = temperature === undefined ? {} : { temperature };
  const parts = { run, verifiers, clock, signal, concurrency, sampling };
  const planAlone = (row: TaskRow, alias: string) => planFor({ coalition: [alias] })(row);
  const solo = await soloRows(rows, aliases, samples(system.options), planAlone, parts);
  const options = optionsFor(system.protocol, fit(system.options, solo.rows, aliases));
  const fitted = { prompts: rows.length };
  return { options, tried: 0, fitted, spent: solo.spent, configured: system.options };
}

/** The member that is best alone on these rows, of several the first in the pool's order. */
async function bestAlone({ system }: OptionFitting, trials: Trials, planFor: PlanFor): Promise<string> {
  const means: { alias: string; mean: number }[] = [];
  for (const { alias } of system.pool.members) {
    means.push({ alias, mean: meanOf(await trials.rewards(planFor({ coalition: [alias] }))) });
  }
  return means.toSorted((a, b) => b.mean - a.mean)[0]?.alias ?? '';
}

/**
 * @throws `usage` when there is nothing to fit or too little to fit it to; the signal's reason when it was stopped
 */
export async function fitOptions(running: Running, fitting: OptionFitting): Promise<FittedOptions> {
  const { system, rows } = fitting;
  checkFittable(system);
  const [first, others] = halvesOf(rows, chanceOf(fitting.seed));
  if (clustersOf(others) < LEAST_CLUSTERS) {
    const least = 2 * LEAST_CLUSTERS;
    const wrong = `a fit needs tasks of ${least} clusters or more, half of them to measure; there are`;
    throw new ConsortError('usage', [`${wrong} ${clustersOf(rows)}`]);
  }
  const planFor = plansOf(running, fitting);
  const { search, fit } = system.protocol;
  const { configured, ...found } = search
    ? await searched(running, fitting, first, search, planFor)
    : await computed(running, fitting, first, fit as OptionFit<Options>, planFor);
  const solo = trialsOf(running, first, fitting);
  const single = await bestAlone(fitting, solo, planFor);
  const fresh = trialsOf(running, others, fitting);
  const fitted = await fresh.rewards(planFor({ options: found.options }));
  const keyOf = search?.keyOf ?? ((options: Options) => JSON.stringify(options));
  const isSame = keyOf(found.options) === keyOf(configured);
  const before = isSame ? undefined : await fresh.rewards(planFor({ options: configured }));
  const alone = await fresh.rewards(planFor({ coalition: [single] }));
  const [change, gain] = [before && measure(others, fitted, before), measure(others, fitted, alone)];
  return {
    ...found,
    ...(change?.measured && { measured: change.measured }),
    ...(gain.measured && { against: { single, measured: gain.measured } }),
    excluded: Math.max(change?.excluded ?? 0, gain.excluded),
    spent: [solo.spent, fresh.spent].reduce(sumOf, found.spent),
  };
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
