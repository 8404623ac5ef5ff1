/** What a sweep found, as estimates with their doubt. */
import type { Estimate } from '../../contract/estimate.ts';
import { coalitionName } from '../estimators/coalition.ts';
import { fromPrompts, type PanelEstimates } from '../estimators/from-prompts.ts';
import type { Measured } from '../estimators/measured.ts';
import { synergyOverBest, type SynergyOverBest } from '../estimators/synergy-over-best.ts';
import { estimateList, type Provenance } from '../estimate-list.ts';
import type { PromptResult } from './journal.ts';

export type Cell = Pick<Measured, 'value' | 'standardError' | 'interval'>;

export interface SweepReport {
  /** Prompts with a reward for every coalition; only these count. */
  readonly n: number;
  /** Prompts left out because some coalition has no reward. */
  readonly excluded: number;
  readonly estimates: readonly Estimate[];
  /** v(S) by coalition: aliases joined by `+`. */
  readonly cells: Readonly<Record<string, Cell>>;
  /** The team against its best member, chosen on the other half of the prompts. */
  readonly overBest?: SynergyOverBest;
  readonly calls: number;
  readonly reused: number;
  readonly costUsd: number;
}

/**
 * @param masks the design's coalitions
 * @throws `game_invalid` when no prompt is complete
 */
export function reportOf(
  results: readonly PromptResult[],
  players: readonly string[],
  masks: readonly number[],
  provenance: Provenance & { readonly design: 'full' | 'loo' },
): SweepReport {
  const complete = results.filter(({ rewards }) => masks.every((mask) => typeof rewards[mask] === 'number'));
  const prompts = complete.map(({ cluster, rewards }) => ({
    cluster,
    rewards: Float64Array.from(masks, (mask) => rewards[mask] ?? Number.NaN),
  }));
  const panel = fromPrompts({ players, design: provenance.design, masks, prompts });
  const { grand, individual, loo, shapley, shapleyCentered } = panel;
  const found = {
    players,
    grand,
    loo,
    ...(individual && { individual }),
    ...(shapley && { shapley }),
    ...(shapleyCentered && { shapleyCentred: shapleyCentered }),
  };
  const overBest = againstBest(complete, players.length);
  const sum = (pick: (result: PromptResult) => number) =>
    results.reduce((total, result) => total + pick(result), 0);
  return {
    n: complete.length,
    excluded: results.length - complete.length,
    estimates: estimateList(found, provenance, { sweep: true }),
    cells: cellsOf(panel, players),
    ...(overBest && { overBest }),
    calls: sum(({ calls }) => calls),
    reused: sum(({ reused }) => reused),
    costUsd: sum(({ costMicros }) => costMicros) / 1e6,
  };
}

function cellsOf({ cells }: PanelEstimates, players: readonly string[]): Record<string, Cell> {
  const named = [...cells].map(([mask, { value, standardError, interval }]): [string, Cell] => {
    return [coalitionName(mask, players).replaceAll(',', '+'), { value, standardError, interval }];
  });
  return Object.fromEntries(named);
}

function againstBest(results: readonly PromptResult[], n: number): SynergyOverBest | undefined {
  const clusters = new Set(results.map(({ cluster }) => cluster));
  if (clusters.size < 2 || n < 2) return undefined;
  return synergyOverBest(
    results.map(({ cluster, rewards }) => ({
      cluster,
      team: rewards[2 ** n - 1] ?? Number.NaN,
      members: Array.from({ length: n }, (_, i) => rewards[2 ** i] ?? Number.NaN),
    })),
  );
}
