/**
 * What the policy learns from: G runs of the whole live system on one prompt, with the policy's own tokens. One JSON
 * line a group, in shards that any trainer can read.
 */
import Type, { type Static } from 'typebox';
import { Usage } from './chat.ts';

const Hash = Type.String({ pattern: '^[0-9a-f]{64}$' });

/** How a rollout ended. `invalid` is an outage of somebody else (partner, verifier, store): never a zero. */
export const RolloutStatus = Type.Union([
  Type.Literal('ok'),
  Type.Literal('failed'),
  Type.Literal('timeout'),
  Type.Literal('truncated'),
  Type.Literal('invalid'),
]);
export type RolloutStatus = Static<typeof RolloutStatus>;

/** One call of a rollout. Token arrays are the policy's own, as the serving engine sampled them. */
export const Turn = Type.Object({
  turnIndex: Type.Integer({ minimum: 0 }),
  /** Turns whose text is in this one's prompt. */
  parentTurns: Type.Array(Type.Integer({ minimum: 0 })),
  slot: Type.String(),
  agentRole: Type.String(),
  model: Type.String(),
  isPolicy: Type.Boolean(),
  /** Whether its tokens may be trained on: the policy's, free, at temperature 1. */
  trainable: Type.Boolean(),
  policyVersion: Type.Optional(Type.Integer({ minimum: 0 })),
  promptTokenIds: Type.Optional(Type.Array(Type.Integer({ minimum: 0 }))),
  responseTokenIds: Type.Optional(Type.Array(Type.Integer({ minimum: 0 }))),
  /** Natural logarithms of the probabilities with which the tokens were sampled. */
  responseLogprobs: Type.Optional(Type.Array(Type.Number())),
  logprobsMode: Type.Optional(Type.Union([Type.Literal('raw'), Type.Literal('processed')])),
  sampling: Type.Object({
    temperature: Type.Number(),
    topP: Type.Number(),
    maxTokens: Type.Optional(Type.Integer()),
    seed: Type.Optional(Type.Integer()),
    constrained: Type.Boolean(),
  }),
  finishReason: Type.String(),
  textSha256: Hash,
  text: Type.Optional(Type.String()),
  usage: Usage,
});
export type Turn = Static<typeof Turn>;

export const Rollout = Type.Object({
  rolloutId: Type.String(),
  index: Type.Integer({ minimum: 0 }),
  status: RolloutStatus,
  reward: Type.Union([Type.Number(), Type.Null()]),
  rewardSource: Type.String(),
  outcomeId: Type.String(),
  /** Null for an invalid rollout. */
  advantage: Type.Union([Type.Number(), Type.Null()]),
  turns: Type.Array(Turn),
});
export type Rollout = Static<typeof Rollout>;

/** How advantages are made from the rewards of a group. */
export const AdvantageKind = Type.Union([Type.Literal('centred'), Type.Literal('rloo'), Type.Literal('std')]);
export type AdvantageKind = Static<typeof AdvantageKind>;

/**
 * What a rollout is rewarded for. `team`: the system's outcome; `self`: the policy's own answer inside the system;
 * `solo`: its plain answer outside. `mix` alternates team and solo groups, so a group never has it.
 */
export const Objective = Type.Union([Type.Literal('team'), Type.Literal('self'), Type.Literal('solo')]);
export type Objective = Static<typeof Objective>;

export const TrajectoryGroup = Type.Object({
  schema: Type.Literal('crl.trajectory-group/1'),
  groupId: Type.String(),
  /** RFC 3339. */
  createdAt: Type.String(),
  tenant: Type.String(),
  taskId: Type.String(),
  objective: Objective,
  promptHash: Hash,
  system: Type.String(),
  protocol: Type.Object({ name: Type.String(), version: Type.Integer(), revision: Type.String() }),
  policy: Type.Object({
    alias: Type.String(),
    baseModel: Type.String(),
    adapter: Type.Union([Type.String(), Type.Null()]),
    version: Type.Integer({ minimum: 0 }),
  }),
  groupSize: Type.Integer({ minimum: 2 }),
  rollouts: Type.Array(Rollout),
  baseline: Type.Object({
    kind: AdvantageKind,
    mean: Type.Number(),
    std: Type.Number(),
    valid: Type.Integer({ minimum: 0 }),
  }),
  filter: Type.Object({ accepted: Type.Boolean(), reasons: Type.Array(Type.String()) }),
  simulated: Type.Boolean(),
});
export type TrajectoryGroup = Static<typeof TrajectoryGroup>;
