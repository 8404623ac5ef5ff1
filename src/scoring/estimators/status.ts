/** When a number may be acted on, and how many more prompts it needs otherwise. */
import type { EstimateStatus } from '../../contract/estimate.ts';
import { halfWidth, type Interval } from '../statistics/interval.ts';

export interface StatusInput {
  readonly interval: Interval;
  readonly clusters: number;
  /** A closed sweep needs fewer clusters than numbers that are looked at while they grow. */
  readonly sweep?: boolean;
  /** Discordant pairs, for paired differences of binary rewards. */
  readonly discordant?: number;
  /** Count of the smallest cell that the estimate needs. */
  readonly smallestCell?: number;
  /** Coalitions that the estimate needs and that were never observed. */
  readonly missing?: readonly string[];
  /** Whether the data are live choices without a logged propensity. */
  readonly confounded?: boolean;
  /** Days since the newest observation. */
  readonly ageDays?: number;
  /** Whether a member or the protocol has changed since. */
  readonly versionChanged?: boolean;
}

export interface StatusRules {
  readonly minClusters: number;
  readonly minSweepClusters: number;
  readonly minDiscordant: number;
  readonly minCell: number;
  /** Wider intervals say nothing. */
  readonly maxHalfWidth: number;
  readonly maxAgeDays: number;
  /** Differences inside are as good as none; its half-width is also the target of an unresolved estimate. */
  readonly equivalence: Interval;
}

export const STATUS_RULES: StatusRules = {
  minClusters: 50,
  minSweepClusters: 30,
  minDiscordant: 10,
  minCell: 30,
  maxHalfWidth: 0.05,
  maxAgeDays: 14,
  equivalence: [-0.01, 0.01],
};

export interface StatusVerdict {
  readonly status: EstimateStatus;
  /** Further prompts for the target half-width: with INSUFFICIENT and UNRESOLVED. */
  readonly promptsNeeded?: number;
  /** With INCOMPLETE. */
  readonly missing?: readonly string[];
}

/**
 * The status of a difference (its interval already adjusted for multiplicity). Faults of the data come first: a number
 * that is confounded, incomplete or stale has no sign, however narrow its interval.
 */
export function statusOf(input: StatusInput, rules: StatusRules = STATUS_RULES): StatusVerdict {
  if (input.confounded === true) return { status: 'CONFOUNDED' };
  if (input.missing !== undefined && input.missing.length > 0)
    return { status: 'INCOMPLETE', missing: input.missing };
  if (input.versionChanged === true || (input.ageDays ?? 0) > rules.maxAgeDays) return { status: 'STALE' };
  const { interval, clusters } = input;
  const [low, high] = interval;
  const least = input.sweep === true ? rules.minSweepClusters : rules.minClusters;
  const few =
    clusters < least ||
    (input.discordant ?? Infinity) < rules.minDiscordant ||
    (input.smallestCell ?? Infinity) < rules.minCell;
  if (few || !(halfWidth(interval) <= rules.maxHalfWidth)) {
    const needed = Math.max(
      least - clusters,
      extraPrompts(clusters, halfWidth(interval), rules.maxHalfWidth),
    );
    return { status: 'INSUFFICIENT', promptsNeeded: Math.max(1, needed) };
  }
  if (low > 0) return { status: 'POSITIVE' };
  if (high < 0) return { status: 'NEGATIVE' };
  if (low >= rules.equivalence[0] && high <= rules.equivalence[1]) return { status: 'EQUIVALENT' };
  const needed = extraPrompts(clusters, halfWidth(interval), halfWidth(rules.equivalence));
  return { status: 'UNRESOLVED', promptsNeeded: Math.max(1, needed) };
}

/** `m (halfWidth / target)^2 - m`, rounded up, for an interval from m clusters; 0 when it is narrow enough. */
export function extraPrompts(clusters: number, width: number, target: number): number {
  return Math.max(0, Math.ceil(clusters * ((width / target) ** 2 - 1)));
}
