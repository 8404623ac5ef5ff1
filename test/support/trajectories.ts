/** Rollouts made by hand: calls with tokens, outcomes, and groups of them, through the product's own builder. */
import type { Absence, Answer, Call } from '../../src/contract/call.ts';
import { ConsortError, type ErrorCode } from '../../src/contract/errors.ts';
import type { CallRecord, Outcome } from '../../src/contract/outcome.ts';
import type { Plan } from '../../src/contract/plan.ts';
import type { Reward } from '../../src/contract/reward.ts';
import type { TrajectoryGroup } from '../../src/contract/trajectory.ts';
import { groupOf, type GroupParts, type RolloutRun } from '../../src/policy/groups.ts';
import type { Heard } from '../../src/policy/turns.ts';
import { vote } from '../../src/gateway/protocols/vote.ts';
import { memberNamed, planOf } from './cast.ts';

/** The policy is `ada`, the first of the cast. */
export const POLICY: TrajectoryGroup['policy'] = {
  alias: 'ada',
  baseModel: 'tiny/ada',
  adapter: 'ada-v000003',
  version: 3,
};

export const PLAN: Plan = planOf(vote, { samples: 1, ties: 'priority' }, [0, 1, 2]);

export const PARTS: GroupParts = {
  groupId: 'group-1',
  at: Date.UTC(2026, 10, 1, 12),
  taskId: 'task-1',
  promptHash: 'a'.repeat(64),
  objective: 'team',
  plan: PLAN,
  policy: POLICY,
  advantage: 'centred',
  overLength: 'zero',
  logprobsMode: 'raw',
  sha256: (text) => text.length.toString(16).padStart(64, '0'),
};

export interface Tokens {
  readonly prompt: readonly number[];
  readonly ids: readonly number[];
  readonly logprobs: readonly number[];
}

export const TOKENS: Tokens = { prompt: [5, 6, 7], ids: [8, 9], logprobs: [-0.4, -1.1] };

export function callOf(alias: string, slot: string, more: Partial<Call> = {}): Call {
  return {
    slot,
    member: memberNamed(alias),
    purpose: 'answer',
    messages: [{ role: 'user', content: 'How many?' }],
    sampling: { temperature: 1, top_p: 1, max_tokens: 64 },
    sample: 0,
    reads: [],
    speaks: false,
    ...more,
  };
}

export function answerOf(tokens?: Tokens, more: Partial<Answer> = {}): Answer {
  return {
    message: { text: 'sixteen' },
    finishReason: 'stop',
    usage: { inputTokens: 3, outputTokens: 2 },
    from: [],
    ...(tokens && {
      promptTokenIds: tokens.prompt,
      tokenIds: tokens.ids,
      logprobs: tokens.logprobs.map((logprob) => ({ token: 'x', logprob })),
    }),
    ...more,
  };
}

export function absenceOf(code: ErrorCode, status: Absence['status'] = 'failed', http?: number): Absence {
  const error = new ConsortError(code, ['x', http ?? '', 'y'], http === undefined ? {} : { status: http });
  return { absent: true, status, error };
}

/** A call of the policy that gave these tokens. */
export function policyHeard(tokens: Tokens = TOKENS, more: Partial<Call> = {}): Heard {
  return { call: callOf('ada', 'answer/ada', more), result: answerOf(tokens) };
}

export function outcomeOf(more: Partial<Outcome> = {}): Outcome {
  return {
    v: 1,
    id: 'outcome',
    plan: PLAN,
    taskLabel: '',
    verifier: 'numeric',
    calls: [],
    answer: 'sixteen',
    answerFrom: ['ada'],
    finishReason: 'stop',
    intended: 7,
    realised: 7,
    absences: [],
    status: 'ok',
    startedAt: 0,
    firstPartMs: 1,
    durationMs: 2,
    usage: { inputTokens: 0, outputTokens: 0 },
    costMicros: 0,
    simulated: false,
    ...more,
  };
}

export function recordOf(member: string, more: Partial<CallRecord> = {}): CallRecord {
  return {
    slot: `answer/${member}`,
    member,
    revision: 'r',
    purpose: 'answer',
    reads: [],
    sample: 0,
    startMs: 0,
    firstPartMs: null,
    endMs: 1,
    status: 'ok',
    attempts: 1,
    reused: false,
    usage: { inputTokens: 0, outputTokens: 0 },
    costMicros: 0,
    ...more,
  };
}

export function rewardOf(value: number | null): Reward {
  return {
    v: 1,
    id: 'r',
    outcomeId: 'outcome',
    value,
    status: 'graded',
    source: 'verifier:numeric@1',
    at: 0,
  };
}

let made = 0;

/** A rollout in which the policy answered once and all went well. */
export function runOf(value: number | null, more: Partial<RolloutRun> = {}): RolloutRun {
  const rolloutId = `rollout-${made++}`;
  const heard = [policyHeard()];
  return { rolloutId, outcome: outcomeOf(), heard, reward: rewardOf(value), policyVersion: 3, ...more };
}

export function madeGroup(runs: readonly RolloutRun[], more: Partial<GroupParts> = {}): TrajectoryGroup {
  return groupOf(runs, { ...PARTS, ...more });
}
