/**
 * Is the team better than its best member? The plug-in difference to the best mean is biased down, because the best of
 * noisy means is too high; so the member is chosen on one half of the prompts and compared on the other.
 */
import { clusteredMeans } from '../statistics/clustered-means.ts';
import { studentCdf } from '../statistics/special-functions.ts';

export interface TeamRow {
  readonly cluster: string;
  /** Reward of the team. */
  readonly team: number;
  /** Rewards of its members alone, always in the same order. */
  readonly members: readonly number[];
}

export interface SynergyOverBest {
  /** Cross-fitted: v(S) less the value of its best member. */
  readonly value: number;
  /**
   * p-value of "the team is not better than its best member": the largest of the one-sided paired ones, so no
   * correction for the number of members is needed (intersection-union test, Berger 1982). 1 for one cluster.
   */
  readonly pValue: number;
}

/** Clusters alternate between the halves in the order of their first row. RangeError below two clusters. */
export function synergyOverBest(rows: readonly TeamRow[]): SynergyOverBest {
  const order = [...new Set(rows.map(({ cluster }) => cluster))];
  if (order.length < 2) throw new RangeError(`need at least two clusters, got ${order.length}`);
  const half = new Map(order.map((cluster, index) => [cluster, index % 2]));
  const [even, odd] = [0, 1].map((side) => rows.filter(({ cluster }) => half.get(cluster) === side));
  const folds = [margin(even ?? [], odd ?? []), margin(odd ?? [], even ?? [])];
  const value = folds.reduce((sum, fold) => sum + fold, 0) / folds.length;
  const clusters = rows.map(({ cluster }) => cluster);
  const differences = rows.map(({ team, members }) => members.map((reward) => team - reward));
  const { means, covariance } = clusteredMeans(differences, clusters);
  const pValues = means.map((mean, k) =>
    oneSided(mean, Math.sqrt(covariance[k]?.[k] ?? NaN), order.length - 1),
  );
  return { value, pValue: Math.max(...pValues) };
}

/** The team less the member that is best on `choose`, measured on `judge`. */
function margin(choose: readonly TeamRow[], judge: readonly TeamRow[]): number {
  const means = (choose[0]?.members ?? []).map((_, k) =>
    average(choose.map(({ members }) => members[k] ?? NaN)),
  );
  const best = means.indexOf(Math.max(...means));
  return average(judge.map(({ team, members }) => team - (members[best] ?? NaN)));
}

function oneSided(mean: number, error: number, df: number): number {
  if (error > 0) return studentCdf(-mean / error, df);
  return mean > 0 ? 0 : 1;
}

function average(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
