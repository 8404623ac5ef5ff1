/** What will be run for one request: decided once, recorded whole, never changed while it runs. */
import Type, { type Static } from 'typebox';

/** The upstream dialects. A new one is a file in `gateway/upstreams/` and a word here. */
export const Provider = Type.Union([Type.Literal('openai-compatible'), Type.Literal('sim')]);
export type Provider = Static<typeof Provider>;

/** Prices in micro-USD per million tokens (10⁻⁶ USD per 10⁶ tokens), so that money inside stays integer. */
export const Price = Type.Object({ inputMicros: Type.Integer(), outputMicros: Type.Integer() });
export type Price = Static<typeof Price>;

const can = (description: string) => Type.Optional(Type.Boolean({ description }));

/** What an endpoint can do; absent means "not known to". `consort check --probe` finds out. */
export const Capabilities = Type.Object({
  tokenIds: can('Whether it can return the ids of the tokens it was given and gave (`return_token_ids`).'),
  logprobs: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: 100_000,
      description: 'How many top log-probabilities it can return a token.',
    }),
  ),
  tokenLogprobs: can('Whether it returns log-probabilities of tokens named by id (`logprob_token_ids`).'),
  promptLogprobs: can('Whether it returns the log-probabilities of the prompt (`prompt_logprobs`).'),
  choice: Type.Optional(
    Type.Union(
      [Type.Literal('structured_outputs'), Type.Literal('guided_choice'), Type.Literal('json_schema')],
      { description: 'How an answer is held to one of several labels.' },
    ),
  ),
  labelTokens: Type.Optional(
    Type.Record(Type.String(), Type.Integer({ minimum: 0 }), {
      description: 'Labels that are one token each, with the ids that `logit_bias` takes.',
    }),
  ),
  continuation: can('Whether it goes on with a last message of the assistant (`continue_final_message`).'),
  completions: can('Whether it has `/completions` with log-probabilities.'),
  reasoning: can('Whether it thinks before it answers: then label steps set no limit and no temperature.'),
  tools: can('Whether it can call tools.'),
  images: can('Whether it reads images.'),
  context: Type.Optional(Type.Integer({ minimum: 1, description: 'Its context window in tokens.' })),
});
export type Capabilities = Static<typeof Capabilities>;

/** One model of a pool, as a plan sees it. `revision` changes when anything that can change its answers does. */
export const Member = Type.Object({
  alias: Type.String(),
  model: Type.String(),
  upstream: Type.String(),
  provider: Provider,
  revision: Type.String(),
  price: Price,
  capabilities: Capabilities,
  /** What the operator says of it (`models[].description`), for the protocols that show it. */
  description: Type.Optional(Type.String()),
});
export type Member = Static<typeof Member>;

/** Hard limits of one run. */
export const Budget = Type.Object({
  calls: Type.Integer({ minimum: 1 }),
  costMicros: Type.Union([Type.Integer({ minimum: 0 }), Type.Null()]),
  deadlineMs: Type.Integer({ minimum: 1 }),
});
export type Budget = Static<typeof Budget>;

/** Who chose the coalition, and with what probability at that moment. */
export const Choice = Type.Object({
  source: Type.Union([
    Type.Literal('config'),
    Type.Literal('client'),
    Type.Literal('design'),
    Type.Literal('inline'),
  ]),
  propensity: Type.Union([Type.Number({ exclusiveMinimum: 0, maximum: 1 }), Type.Null()]),
});

/** Why this coalition was run. `live` is a client's ordinary request. */
export const Design = Type.Union([
  Type.Literal('live'),
  Type.Literal('loo'),
  Type.Literal('duel'),
  Type.Literal('full'),
]);
export type Design = Static<typeof Design>;

export const Plan = Type.Object({
  v: Type.Literal(1),
  id: Type.String(),
  asked: Type.String(),
  system: Type.String(),
  protocol: Type.Object({ name: Type.String(), version: Type.Integer() }),
  protocolRevision: Type.String(),
  pool: Type.Object({ id: Type.String(), revision: Type.String(), size: Type.Integer({ minimum: 1 }) }),
  /** The coalition, in the pool's canonical order. */
  members: Type.Array(Member),
  /** Set where the coalition runs as one model, its members' weights merged: that model. */
  merged: Type.Optional(Member),
  /** Bit i is the pool's i-th member. */
  mask: Type.Integer({ minimum: 1 }),
  options: Type.Record(Type.String(), Type.Unknown()),
  budget: Budget,
  seed: Type.String(),
  replicate: Type.Integer({ minimum: 0 }),
  promptInstance: Type.String(),
  cluster: Type.String(),
  tenant: Type.String(),
  choice: Choice,
  design: Design,
  /** The outcome for whose sake a run in the background was made. */
  parent: Type.Optional(Type.String()),
  /**
   * Set when the client brings results of tools: the outcome whose run goes on, or null when that is not known (any
   * more) and the protocol runs anew on the whole conversation.
   */
  resumes: Type.Optional(Type.Union([Type.String(), Type.Null()])),
  configHash: Type.String(),
  simulated: Type.Boolean(),
});
export type Plan = Static<typeof Plan>;

/** Whom the protocol works with: the coalition, or the one model that stands for it. */
export function teamOf({ members, merged }: Pick<Plan, 'members' | 'merged'>): readonly Member[] {
  return merged ? [merged] : members;
}
