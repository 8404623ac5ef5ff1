/** What the arms of the experiment come to: means over seeds, and differences paired by task. */
import type { PromptResult } from '../../src/scoring/sweep/journal.ts';
import { momentsOf, variance } from '../../src/scoring/statistics/moments.ts';
import type { Measured } from '../../src/cli/training/holdout.ts';

export type Quantity = 'team' | 'alone' | 'leaveOneOut';

/** Reward of one quantity by task. */
export type ByTask = ReadonlyMap<string, number>;

export interface Mean {
  readonly value: number;
  /** Over tasks. */
  readonly standardError: number;
  readonly tasks: number;
}

export interface Difference extends Mean {
  /** Standard error over the seeds' own differences; NaN for one seed. */
  readonly overSeeds: number;
}

export function byTask({ results, masks }: Measured, quantity: Quantity): ByTask {
  const read = ({ rewards }: PromptResult): number => {
    const [team, without, alone] = [rewards[masks.team], rewards[masks.without], rewards[masks.alone]];
    if (quantity === 'team') return team ?? NaN;
    return quantity === 'alone' ? (alone ?? NaN) : (team ?? NaN) - (without ?? NaN);
  };
  return new Map(results.map((result) => [result.task, read(result)]));
}

/** Averages over seeds, task by task. Tasks that lack a reward in some seed are left out. */
function averaged(seeds: readonly ByTask[]): Map<string, number> {
  const [first = new Map<string, number>()] = seeds;
  const means = [...first.keys()].map((task): [string, number] => {
    const all = seeds.map((one) => one.get(task) ?? NaN);
    return [task, all.reduce((sum, value) => sum + value, 0) / all.length];
  });
  return new Map(means.filter(([, value]) => Number.isFinite(value)));
}

function meanOf(values: readonly number[]): Mean {
  const moments = momentsOf(values);
  return {
    value: moments.mean,
    standardError: Math.sqrt(variance(moments) / moments.n),
    tasks: moments.n,
  };
}

export function mean(seeds: readonly ByTask[]): Mean {
  return meanOf([...averaged(seeds).values()]);
}

/** `a − b`, seed by seed and task by task. Both have the same number of seeds. */
export function difference(a: readonly ByTask[], b: readonly ByTask[]): Difference {
  const [left, right] = [averaged(a), averaged(b)];
  const paired = [...left].flatMap(([task, value]) => {
    const other = right.get(task);
    return other === undefined ? [] : [value - other];
  });
  const perSeed = a.map((one, seed) => meanDifference(one, b[seed] ?? new Map<string, number>()));
  const seeds = momentsOf(perSeed);
  return { ...meanOf(paired), overSeeds: Math.sqrt(variance(seeds) / seeds.n) };
}

/** Of one seed, over the tasks that both have a reward for. */
function meanDifference(a: ByTask, b: ByTask): number {
  const paired = [...a].map(([task, value]) => value - (b.get(task) ?? NaN)).filter(Number.isFinite);
  return paired.reduce((sum, value) => sum + value, 0) / paired.length;
}
