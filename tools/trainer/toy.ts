/** Something to learn that everybody can check: one token should become likely after one prompt. */
import type { TrajectoryGroup } from '../../src/contract/trajectory.ts';

export const PROMPT = [5, 6, 7, 9, 11];
/** The token that is rewarded, wherever it stands. */
export const TARGET = 77;
const RESPONSES = [
  [TARGET, 12, 13],
  [40, 41, 42],
  [TARGET, TARGET, 50],
  [60, 61, 62],
];

/** The whole sequences of the four rollouts. */
export const SEQUENCES = RESPONSES.map((response) => [...PROMPT, ...response]);

const NO_HASH = '0'.repeat(64);

/**
 * A group as the learner makes it: four rollouts, rewarded by the share of target tokens.
 *
 * @param logprobs of the sequences under the current policy, of each token but the first
 */
export function toyGroup(index: number, baseModel: string, logprobs: readonly number[][]): TrajectoryGroup {
  const rewards = RESPONSES.map((ids) => ids.filter((id) => id === TARGET).length / ids.length);
  const mean = rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length;
  return {
    schema: 'crl.trajectory-group/1',
    groupId: `toy-${index}`,
    createdAt: new Date().toISOString(),
    tenant: 'toy',
    taskId: 'toy',
    objective: 'team',
    promptHash: NO_HASH,
    system: 'toy',
    protocol: { name: 'single', version: 1, revision: 'toy' },
    policy: { alias: 'policy', baseModel, adapter: null, version: index },
    groupSize: RESPONSES.length,
    rollouts: RESPONSES.map((responseTokenIds, rollout) => ({
      rolloutId: `toy-${index}-${rollout}`,
      index: rollout,
      status: 'ok',
      reward: rewards[rollout] ?? null,
      rewardSource: 'toy',
      outcomeId: `toy-${index}-${rollout}`,
      advantage: (rewards[rollout] ?? 0) - mean,
      turns: [
        {
          turnIndex: 0,
          parentTurns: [],
          slot: 'answer/policy',
          agentRole: 'answer',
          model: 'policy',
          isPolicy: true,
          trainable: true,
          policyVersion: index,
          promptTokenIds: PROMPT,
          responseTokenIds,
          responseLogprobs: logprobs[rollout]?.slice(PROMPT.length - 1) ?? [],
          logprobsMode: 'raw',
          sampling: { temperature: 1, topP: 1, constrained: false },
          finishReason: 'stop',
          textSha256: NO_HASH,
          usage: { inputTokens: PROMPT.length, outputTokens: responseTokenIds.length },
        },
      ],
    })),
    baseline: { kind: 'centred', mean, std: 0, valid: RESPONSES.length },
    filter: { accepted: true, reasons: [] },
    simulated: true,
  };
}

/** Log-prob of the target right after the prompt. */
export const targetLogprob = (logprobs: readonly number[][]): number =>
  logprobs[0]?.[PROMPT.length - 1] ?? NaN;
