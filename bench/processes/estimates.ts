/** What the gateway publishes, beside the simulated truth and beside the recount. */
import { request } from 'undici';
import type { Estimate } from '../../src/contract/estimate.ts';
import { truthOf } from '../../test/support/sim-truth.ts';
import type { Sums } from './recount.ts';

export interface Compared {
  readonly estimate: Estimate;
  readonly exact: number;
  /** Whether the anytime-valid interval holds the exact value. */
  readonly isInside: boolean;
  /** Distance from it in standard errors. */
  readonly deviation: number;
}

const alias = (name: string) => name.replace('/', '-');

export async function publishedEstimates(url: string): Promise<Estimate[]> {
  const response = await request(`${url}/v1/estimates`);
  const { data } = (await response.body.json()) as { data: Estimate[] };
  return data;
}

/** The exact value of what an estimate is about. */
function exactOf({ system, metric, subject }: Estimate): number {
  const { grand, loo, shapley } = truthOf(system);
  if (metric === 'value') return grand;
  const players = Object.keys(shapley);
  const player = players.find((name) => alias(name) === subject)!;
  if (metric === 'leave-one-out') return loo[player]!;
  if (metric === 'shapley-centred') return shapley[player]! - grand / players.length;
  throw new Error(`no exact value is known of ${metric}`);
}

export function compare(estimates: readonly Estimate[]): Compared[] {
  return estimates.map((estimate) => {
    const exact = exactOf(estimate);
    const [low, high] = estimate.interval;
    const deviation = (estimate.value - exact) / estimate.standardError;
    return { estimate, exact, isInside: low <= exact && exact <= high, deviation };
  });
}

/**
 * Values of whole teams that are not the mean of the recount: the scorer published before its last reward, and never
 * again.
 */
export function stale(estimates: readonly Estimate[], sums: ReadonlyMap<string, Sums>): string[] {
  const means = new Map<string, { n: number; mean: number }>();
  for (const [series, fields] of sums) {
    const [, system, , , source] = series.split('\n');
    const n = Number(fields.get('31:n') ?? 0n);
    means.set(`${system} ${source}`, { n, mean: Number(fields.get('31:s') ?? 0n) / n / 10_000 });
  }
  const values = estimates.filter(({ metric }) => metric === 'value');
  const told = new Map(values.map((one) => [`${one.system} ${one.source}`, one]));
  return [...means].flatMap(([name, { n, mean }]) => {
    const one = told.get(name);
    const isFresh = one?.clusters === n && Math.abs(one.value - mean) < 1e-9;
    return isFresh ? [] : [`${name}: ${one?.clusters ?? 'nothing'} of ${n} prompts`];
  });
}
