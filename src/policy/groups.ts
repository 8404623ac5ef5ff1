/**
 * From G runs of the system on one prompt to the group that a trainer learns from: statuses, rewards, advantages, and
 * whether it may be used at all. Every turn of the policy gets its rollout's advantage (uniform credit); nothing else
 * is trained.
 */
import type { Outcome } from '../contract/outcome.ts';
import type { Plan } from '../contract/plan.ts';
import type { Reward } from '../contract/reward.ts';
import type {
  AdvantageKind,
  Objective,
  Rollout,
  RolloutStatus,
  TrajectoryGroup,
} from '../contract/trajectory.ts';
import { advantagesOf, type Advantages } from './advantages.ts';
import { statusOf } from './blame.ts';
import { turnsOf, type Heard, type TurnProblem } from './turns.ts';

/** Why a group is not trained on; docs/training.md lists the same words. */
export type FilterReason =
  TurnProblem | 'too-few-valid' | 'rewards-equal' | 'mixed-policy-versions' | 'no-policy-tokens';

/** One run of the system on the prompt. */
export interface RolloutRun {
  readonly rolloutId: string;
  readonly outcome: Outcome;
  /** Its calls, in the order of asking. */
  readonly heard: readonly Heard[];
  /** Absent when nobody could grade it. */
  readonly reward?: Reward;
  /** The version of the policy's weights that it is pinned to. */
  readonly policyVersion: number;
}

export interface GroupParts {
  readonly groupId: string;
  /** Unix milliseconds. */
  readonly at: number;
  readonly taskId: string;
  /** Lower-case hex SHA-256 of the prompt's messages. */
  readonly promptHash: string;
  readonly objective: Objective;
  /** Any of the plans of the runs: they differ in their ids only. */
  readonly plan: Plan;
  readonly policy: TrajectoryGroup['policy'];
  readonly advantage: AdvantageKind;
  /**
   * What a rollout is worth in which the policy ran into its longest response: nothing, or what its grade says. A
   * cut answer that is rewarded teaches to run on.
   */
  readonly overLength: 'zero' | 'graded';
  readonly logprobsMode: 'raw' | 'processed';
  readonly sha256: (text: string) => string;
}

/** Fewest valid rollouts of a group that is trained on: two, and half of it. */
export function fewestValid(groupSize: number): number {
  return Math.max(2, groupSize / 2);
}

/**
 * The group of these runs. It is complete whatever happened; `filter` says whether to train on it.
 *
 * @param runs at least two, all of the same prompt and coalition
 */
export function groupOf(runs: readonly RolloutRun[], parts: GroupParts): TrajectoryGroup {
  const drafts = runs.map((run, index) => draftOf(run, index, parts));
  const advantages = advantagesOf(
    drafts.map(({ rollout }) => rollout.reward),
    parts.advantage,
  );
  const rollouts = drafts.map(({ rollout }, index) => ({
    ...rollout,
    advantage: advantages.advantages[index] ?? null,
  }));
  const problems = drafts.flatMap((draft) => (draft.rollout.status === 'invalid' ? [] : draft.problems));
  const reasons = [...new Set([...problems, ...reasonsOf(rollouts, advantages, parts.policy.version)])];
  const { plan, policy } = parts;
  return {
    schema: 'crl.trajectory-group/1',
    groupId: parts.groupId,
    createdAt: new Date(parts.at).toISOString(),
    tenant: plan.tenant,
    taskId: parts.taskId,
    objective: parts.objective,
    promptHash: parts.promptHash,
    system: plan.system,
    protocol: { ...plan.protocol, revision: plan.protocolRevision },
    policy,
    groupSize: runs.length,
    rollouts,
    baseline: {
      kind: parts.advantage,
      mean: advantages.mean,
      std: advantages.std,
      valid: advantages.valid,
    },
    filter: { accepted: reasons.length === 0, reasons },
    simulated: plan.simulated,
  };
}

interface Draft {
  readonly rollout: Rollout;
  readonly problems: readonly TurnProblem[];
}

function draftOf(run: RolloutRun, index: number, parts: GroupParts): Draft {
  const { outcome, heard, reward, policyVersion } = run;
  const { policy, logprobsMode, sha256 } = parts;
  const status = statusOf(outcome, heard, reward, policy.alias);
  const { turns, problems } = turnsOf(heard, { policy: policy.alias, policyVersion, logprobsMode, sha256 });
  const rollout: Rollout = {
    rolloutId: run.rolloutId,
    index,
    status,
    reward: worthOf(status, reward, parts),
    rewardSource: reward?.source ?? 'none',
    outcomeId: outcome.id,
    advantage: null,
    turns,
  };
  return { rollout, problems };
}

function worthOf(
  status: RolloutStatus,
  reward: Reward | undefined,
  { overLength }: GroupParts,
): number | null {
  if (status === 'invalid') return null;
  if (status === 'truncated' && overLength === 'zero') return 0;
  return reward?.value ?? null;
}

/** What is wrong with the group as a whole. An invalid rollout is never trained on, so its turns do not matter. */
function reasonsOf(
  rollouts: readonly Rollout[],
  { valid, degenerate }: Advantages,
  version: number,
): FilterReason[] {
  if (valid < fewestValid(rollouts.length)) return ['too-few-valid'];
  const reasons: FilterReason[] = [];
  if (degenerate) reasons.push('rewards-equal');
  const turns = rollouts.flatMap((rollout) => (rollout.status === 'invalid' ? [] : rollout.turns));
  const policyTurns = turns.filter(({ isPolicy }) => isPolicy);
  if (policyTurns.some(({ policyVersion }) => policyVersion !== version))
    reasons.push('mixed-policy-versions');
  if (!policyTurns.some(({ trainable }) => trainable)) reasons.push('no-policy-tokens');
  return reasons;
}
