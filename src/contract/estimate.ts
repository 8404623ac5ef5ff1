/** A number with its doubt. */
import Type, { type Static } from 'typebox';

export const EstimateStatus = Type.Union([
  Type.Literal('INSUFFICIENT'),
  Type.Literal('INCOMPLETE'),
  Type.Literal('CONFOUNDED'),
  Type.Literal('STALE'),
  Type.Literal('POSITIVE'),
  Type.Literal('NEGATIVE'),
  Type.Literal('EQUIVALENT'),
  Type.Literal('UNRESOLVED'),
]);
export type EstimateStatus = Static<typeof EstimateStatus>;

export const Metric = Type.Union([
  Type.Literal('value'),
  Type.Literal('individual'),
  Type.Literal('leave-one-out'),
  Type.Literal('shapley'),
  Type.Literal('shapley-centred'),
]);
export type Metric = Static<typeof Metric>;

export const Estimate = Type.Object({
  v: Type.Literal(1),
  system: Type.String(),
  task: Type.String(),
  /** A member's alias, or a coalition's aliases joined by `+` for the metric `value`. */
  subject: Type.String(),
  metric: Metric,
  value: Type.Number(),
  standardError: Type.Number({ minimum: 0 }),
  interval: Type.Tuple([Type.Number(), Type.Number()]),
  /** Confidence level of the interval, e.g. 0.95. */
  level: Type.Number({ exclusiveMinimum: 0, exclusiveMaximum: 1 }),
  /** How the interval was made: `t`, `wilson`, `bonett-price`, `asymp-cs`. */
  method: Type.String(),
  /** Independent prompts (or clusters of prompts) behind the value. */
  clusters: Type.Integer({ minimum: 0 }),
  design: Type.String(),
  source: Type.String(),
  poolRevision: Type.String(),
  protocolRevision: Type.String(),
  status: EstimateStatus,
  /** Further prompts needed for the target half-width, when the status is UNRESOLVED or INSUFFICIENT. */
  promptsNeeded: Type.Optional(Type.Integer({ minimum: 0 })),
  /** Rank interval [best, worst] among the members, 1 is best. */
  rank: Type.Optional(Type.Tuple([Type.Integer(), Type.Integer()])),
  simulated: Type.Boolean(),
  /** Unix milliseconds. */
  at: Type.Number(),
});
export type Estimate = Static<typeof Estimate>;
