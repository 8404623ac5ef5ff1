/**
 * The promotion gate: may a candidate take the place of the live version? What counts is the team: v(N) with the one
 * against v(N) with the other on the same prompts. The team without the policy is the same in both, so that paired
 * difference is the change of the policy's leave-one-out value. It may be looked at after every prompt: binary pairs go
 * through an e-process (Ville 1939), others through an asymptotic confidence sequence (Waudby-Smith et al. 2021).
 *
 * Give it one pair a cluster, none of a cluster that the policy was trained on, with the same roles on both sides.
 */
import { sequenceRadius } from '../../scoring/statistics/asymptotic-sequence.ts';
import { eMcNemar } from '../../scoring/statistics/e-mcnemar.ts';
import type { Interval } from '../../scoring/statistics/interval.ts';
import { momentsOf, variance } from '../../scoring/statistics/moments.ts';
import { wilsonInterval } from '../../scoring/statistics/wilson.ts';

/** Rewards in [0, 1] of the whole team on one prompt, with the live version and with the candidate. */
export interface OutcomePair {
  readonly live: number;
  readonly candidate: number;
}

/** Requests to one version. */
export interface Traffic {
  readonly requests: number;
  readonly failed: number;
  /** Of those that were answered. */
  readonly latenciesMs: readonly number[];
}

export interface GateEvidence {
  readonly pairs: readonly OutcomePair[];
  readonly live: Traffic;
  readonly candidate: Traffic;
}

export interface GateRules {
  /** Chance of promoting a version that is not better, over all looks of this gate. See {@link alphaOfGate}. */
  readonly alpha: number;
  /** What must be shown: 0 "better", −0.02 "not worse by 0.02". */
  readonly margin: number;
  /** No decision before this many pairs, and for binary ones before this many that differ. */
  readonly leastPairs: number;
  readonly leastDiscordant: number;
  /** What is not shown by then is taken not to be there. */
  readonly mostPairs: number;
  /** Share of failures that the candidate may have above the live version's. */
  readonly errorSlack: number;
  /** Most that its 95th percentile of latency may be, in multiples of the live version's. */
  readonly latencyRatio: number;
}

export const GATE_RULES: GateRules = {
  alpha: 0.05,
  margin: 0,
  leastPairs: 50,
  leastDiscordant: 10,
  mostPairs: 5_000,
  errorSlack: 0.05,
  latencyRatio: 1.25,
};

export type GateDecision = 'promote' | 'wait' | 'reject';

/** One question and its answer. */
export interface GateFinding {
  readonly about: 'quality' | 'errors' | 'latency';
  readonly decision: GateDecision;
  readonly reason: string;
}

export interface GateVerdict {
  /** `reject` when one finding says so, `promote` when all do. */
  readonly decision: GateDecision;
  readonly findings: readonly GateFinding[];
  /** Candidate less live; null without pairs. The interval holds at every look. */
  readonly difference: {
    readonly value: number;
    readonly standardError: number;
    readonly interval: Interval;
    readonly level: number;
    readonly pairs: number;
  } | null;
}

/**
 * The level for the k-th gate of a policy, from 1: every gate is another chance to promote by accident, and these add
 * up to `alpha` however many there will be.
 */
export function alphaOfGate(alpha: number, k: number): number {
  if (!(Number.isInteger(k) && k >= 1)) throw new RangeError(`gates are counted from 1, got ${k}`);
  return (alpha * 6) / (Math.PI * k) ** 2;
}

/** @throws RangeError when a reward lies outside [0, 1] or more requests failed than were made */
export function judgeRelease(evidence: GateEvidence, rules: GateRules = GATE_RULES): GateVerdict {
  const difference = differenceOf(evidence.pairs, rules);
  const findings = [
    quality(evidence.pairs, difference, rules),
    errors(evidence, rules),
    latency(evidence, rules),
  ];
  const decisions = findings.map(({ decision }) => decision);
  const all = decisions.every((decision) => decision === 'promote') ? 'promote' : 'wait';
  return { decision: decisions.includes('reject') ? 'reject' : all, findings, difference };
}

function differenceOf(pairs: readonly OutcomePair[], { alpha }: GateRules): GateVerdict['difference'] {
  const n = pairs.length;
  if (n === 0) return null;
  const rewards = pairs.flatMap(({ live, candidate }) => [live, candidate]);
  const odd = rewards.find((reward) => !(reward >= 0 && reward <= 1));
  if (odd !== undefined) throw new RangeError(`rewards must lie in [0, 1], got ${odd}`);
  const moments = momentsOf(pairs.map(({ live, candidate }) => candidate - live));
  const { mean: value } = moments;
  // One pair says nothing about spread: the widest there is.
  const spread = n > 1 ? variance(moments) : 1;
  const radius = sequenceRadius(n, spread, alpha);
  const interval: Interval = [value - radius, value + radius];
  return { value, standardError: Math.sqrt(spread / n), interval, level: 1 - alpha, pairs: n };
}

function quality(
  pairs: readonly OutcomePair[],
  difference: GateVerdict['difference'],
  rules: GateRules,
): GateFinding {
  const { alpha, margin, leastPairs, leastDiscordant, mostPairs } = rules;
  const say = (decision: GateDecision, reason: string): GateFinding => ({
    about: 'quality',
    decision,
    reason,
  });
  if (!difference || pairs.length < leastPairs) return say('wait', `${pairs.length} of ${leastPairs} pairs`);
  const isBinary = pairs.every(({ live, candidate }) => isWhole(live) && isWhole(candidate));
  const won = pairs.filter(({ live, candidate }) => candidate > live).length;
  const lost = pairs.filter(({ live, candidate }) => candidate < live).length;
  const is = `${signed(difference.value)} ± ${difference.standardError.toFixed(4)} over ${pairs.length} pairs`;
  const isEnough = !isBinary || won + lost >= leastDiscordant;
  if (isEnough) {
    const usesPairs = isBinary && margin === 0;
    const bar = Math.log(1 / alpha);
    const [low, high] = difference.interval;
    if (usesPairs ? eMcNemar(won, lost).greater >= bar : low > margin) return say('promote', is);
    if (usesPairs ? eMcNemar(lost, won).greater >= bar : high < margin) return say('reject', `worse: ${is}`);
  }
  if (pairs.length >= mostPairs) return say('reject', `not shown to be above ${margin}: ${is}`);
  return say('wait', isEnough ? `undecided: ${is}` : `${won + lost} of ${leastDiscordant} pairs differ`);
}

function isWhole(reward: number): boolean {
  return reward === 0 || reward === 1;
}

function errors({ live, candidate }: GateEvidence, { alpha, errorSlack }: GateRules): GateFinding {
  const say = (decision: GateDecision, reason: string): GateFinding => ({
    about: 'errors',
    decision,
    reason,
  });
  if (candidate.requests === 0 || live.requests === 0) return say('wait', 'no requests to compare');
  const bound = live.failed / live.requests + errorSlack;
  const [low, high] = wilsonInterval(candidate.failed, candidate.requests, alpha);
  const is = `${candidate.failed} of ${candidate.requests} failed, ${percent(low)} to ${percent(high)}; at most ${percent(bound)}`;
  if (low > bound) return say('reject', is);
  return say(high <= bound ? 'promote' : 'wait', is);
}

function latency({ live, candidate }: GateEvidence, { leastPairs, latencyRatio }: GateRules): GateFinding {
  const say = (decision: GateDecision, reason: string): GateFinding => ({
    about: 'latency',
    decision,
    reason,
  });
  const fewest = Math.min(live.latenciesMs.length, candidate.latenciesMs.length);
  if (fewest < leastPairs) return say('wait', `${fewest} of ${leastPairs} latencies`);
  const bound = latencyRatio * ninetyFifth(live.latenciesMs).value;
  const { value, low } = ninetyFifth(candidate.latenciesMs);
  const is = `95 % within ${Math.round(value)} ms; at most ${Math.round(bound)} ms`;
  if (value <= bound) return say('promote', is);
  return say(low > bound ? 'reject' : 'wait', is);
}

/** The sample's 95th percentile, and a lower limit of the true one: the order statistic two standard deviations down. */
function ninetyFifth(values: readonly number[]): { readonly value: number; readonly low: number } {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (rank: number) => sorted[Math.max(0, Math.min(sorted.length, Math.ceil(rank)) - 1)] ?? 0;
  const rank = 0.95 * sorted.length;
  return { value: at(rank), low: at(rank - 2 * Math.sqrt(rank * 0.05)) };
}

function percent(share: number): string {
  return `${(100 * share).toFixed(1)} %`;
}

function signed(value: number): string {
  return `${value < 0 ? '' : '+'}${value.toFixed(4)}`;
}
