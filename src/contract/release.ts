/** A version of a hosted policy on its way from the trainer to the clients. */
import Type, { type Static } from 'typebox';

export const Stage = Type.Union([
  Type.Literal('exported'),
  Type.Literal('verified'),
  Type.Literal('loaded'),
  Type.Literal('probed'),
  Type.Literal('live'),
  Type.Literal('retired'),
  Type.Literal('rolled-back'),
  Type.Literal('rejected'),
]);
export type Stage = Static<typeof Stage>;

export const Transition = Type.Object({
  from: Type.Union([Stage, Type.Null()]),
  to: Stage,
  /** Unix milliseconds. */
  at: Type.Number(),
  reason: Type.String(),
});
export type Transition = Static<typeof Transition>;

export const Release = Type.Object({
  v: Type.Literal(1),
  /** Alias of the policy that clients and pools name. */
  policy: Type.String(),
  version: Type.Integer({ minimum: 0 }),
  /** Name under which the serving fleet knows it: never used for other weights. */
  servedAs: Type.String(),
  base: Type.String(),
  artifact: Type.Object({ uri: Type.String(), sha256: Type.String({ pattern: '^[0-9a-f]{64}$' }) }),
  trainedOn: Type.Object({ run: Type.String(), step: Type.Integer({ minimum: 0 }) }),
  stage: Stage,
  history: Type.Array(Transition),
});
export type Release = Static<typeof Release>;
