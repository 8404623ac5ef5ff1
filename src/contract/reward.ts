/** What an outcome was worth. */
import Type, { type Static } from 'typebox';

/** `null` means that no reward exists (grader broke, user silent): it is never a zero. */
export const Reward = Type.Object({
  v: Type.Literal(1),
  /** `<outcome id>/<source>`: one reward a source, so a repeated one is a revision. */
  id: Type.String(),
  outcomeId: Type.String(),
  value: Type.Union([Type.Number({ minimum: 0, maximum: 1 }), Type.Null()]),
  status: Type.String(),
  /** Who judged: `verifier:<id>@<version>` or `feedback:<metric>`. Sources are never mixed in one number. */
  source: Type.String(),
  /** Unix milliseconds. */
  at: Type.Number(),
});
export type Reward = Static<typeof Reward>;

/** The body of `POST /v1/feedback`. */
export const Feedback = Type.Object(
  {
    outcome_id: Type.String({ minLength: 1, maxLength: 64 }),
    metric: Type.Optional(Type.String({ pattern: '^[a-z0-9][a-z0-9-]{0,63}$', default: 'user' })),
    value: Type.Union([Type.Number({ minimum: 0, maximum: 1 }), Type.Boolean()]),
    source: Type.Optional(Type.String({ pattern: '^[a-z0-9][a-z0-9-]{0,63}$' })),
  },
  { additionalProperties: false },
);
export type Feedback = Static<typeof Feedback>;
