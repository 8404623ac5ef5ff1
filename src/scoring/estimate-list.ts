/**
 * From numbers to published estimates: each carries its interval, design, source, status and rank interval. The same
 * for a closed sweep and for the running sums of live traffic.
 */
import { xoroshiro128plus } from 'pure-rand/generator/xoroshiro128plus';
import type { Estimate, Metric } from '../contract/estimate.ts';
import type { Outcome } from '../contract/outcome.ts';
import type { TallyKey } from '../contract/store.ts';
import type { PlayerEstimates } from './estimators/from-prompts.ts';
import { fromTallies } from './estimators/from-tallies.ts';
import type { Measured } from './estimators/measured.ts';
import { statusOf, type StatusInput } from './estimators/status.ts';
import { addTallies } from './estimators/tally-fields.ts';
import { rankIntervals } from './statistics/rank-intervals.ts';

/** What all estimates of one list have in common. */
export interface Provenance {
  readonly system: string;
  readonly task: string;
  readonly source: string;
  readonly design: string;
  readonly poolRevision: string;
  readonly protocolRevision: string;
  readonly simulated: boolean;
  /** Unix milliseconds. */
  readonly at: number;
}

/** Estimates by kind; a kind that the data do not allow is left out. */
export interface Found {
  readonly players: readonly string[];
  readonly grand?: Measured;
  readonly individual?: PlayerEstimates;
  readonly loo?: PlayerEstimates;
  readonly shapley?: PlayerEstimates;
  readonly shapleyCentred?: PlayerEstimates;
}

/** Rank intervals are drawn with this seed, so that the same numbers always give the same ranks. */
const RANK_SEED = 20_260_101;

type StatusFacts = Pick<StatusInput, 'sweep' | 'ageDays'>;

function toEstimate(
  provenance: Provenance,
  metric: Metric,
  subject: string,
  measured: Measured,
  facts: StatusFacts,
): Estimate {
  const { discordant } = measured;
  const { status, promptsNeeded } = statusOf({
    interval: measured.interval,
    clusters: measured.clusters,
    ...facts,
    ...(discordant !== undefined && { discordant }),
  });
  return {
    v: 1,
    ...provenance,
    subject,
    metric,
    value: measured.value,
    standardError: measured.standardError,
    interval: [...measured.interval],
    level: measured.level,
    method: measured.method,
    clusters: measured.clusters,
    status,
    ...(promptsNeeded !== undefined && { promptsNeeded }),
  };
}

/** One list for a system: v(N), then each metric by member in the pool's order. */
export function estimateList(found: Found, provenance: Provenance, facts: StatusFacts): Estimate[] {
  const list: Estimate[] = [];
  const { players, grand } = found;
  if (grand) list.push(toEstimate(provenance, 'value', players.join('+'), grand, facts));
  const kinds: [Metric, PlayerEstimates | undefined][] = [
    ['individual', found.individual],
    ['leave-one-out', found.loo],
    ['shapley', found.shapley],
    ['shapley-centred', found.shapleyCentred],
  ];
  for (const [metric, measured] of kinds) {
    if (!measured) continue;
    const { estimates, covariance } = measured;
    const alpha = 1 - (estimates[0]?.level ?? 0.95);
    const values = estimates.map(({ value }) => value);
    const { ranks } = rankIntervals(values, covariance, alpha, xoroshiro128plus(RANK_SEED));
    for (const [index, player] of players.entries()) {
      const one = estimates[index];
      const rank = ranks[index];
      if (one) list.push({ ...toEstimate(provenance, metric, player, one, facts), ...(rank && { rank }) });
    }
  }
  return list;
}

/** Whether every player has an estimate: a list with gaps has no ranks. */
function complete(estimates: readonly (Measured | undefined)[]): estimates is Measured[] {
  return estimates.every((estimate) => estimate !== undefined);
}

/** Pairs of different members come from different prompts: nothing is known of their covariance. */
function diagonal(values: readonly number[]): number[][] {
  return values.map((value, i) => values.map((_, j) => (i === j ? value : 0)));
}

const MS_PER_DAY = 86_400_000;

/**
 * Estimates from the tallies of all days of one system, task and source. `outcome` is the latest: it names the
 * members. Anytime-valid intervals, because live numbers are looked at all the time.
 *
 * @param at Unix milliseconds
 */
export function estimatesFromTallies(
  keys: readonly TallyKey[],
  sums: readonly ReadonlyMap<string, bigint>[],
  players: readonly string[],
  outcome: Outcome,
  at: number,
): Estimate[] {
  const [key] = keys;
  if (!key) return [];
  const n = players.length;
  const tallied = fromTallies(addTallies(sums), { n });
  const pairs: readonly (Measured | undefined)[] = tallied.loo;
  const newest = keys.map(({ bucket }) => Date.parse(bucket)).reduce((a, b) => Math.max(a, b));
  const provenance: Provenance = {
    system: key.system,
    task: key.task,
    source: key.source,
    design: tallied.shapleyCentered ? 'full' : tallied.duel || pairs.some(Boolean) ? 'shadow' : 'live',
    poolRevision: key.poolRevision,
    protocolRevision: key.protocolRevision,
    simulated: outcome.simulated,
    at,
  };
  const { grand, individual, panelLoo, shapleyCentered, duel } = tallied;
  const paired = complete(pairs)
    ? { estimates: pairs, covariance: diagonal(pairs.map(({ standardError }) => standardError ** 2)) }
    : undefined;
  const chosen = panelLoo ?? paired;
  const found: Found = {
    players,
    ...(grand && { grand }),
    ...(individual && { individual }),
    ...(chosen && { loo: chosen }),
    ...(shapleyCentered ? { shapleyCentred: shapleyCentered } : duel && { shapleyCentred: duel }),
  };
  return estimateList(found, provenance, { ageDays: Math.max(0, (at - newest) / MS_PER_DAY - 1) });
}
