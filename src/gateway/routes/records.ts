/** Outcomes, feedback about them, and the estimates made from them. */
import type { FastifyInstance } from 'fastify';
import Type from 'typebox';
import { ConsortError } from '../../contract/errors.ts';
import type { Outcome } from '../../contract/outcome.ts';
import { Feedback, type Reward } from '../../contract/reward.ts';
import { SYSTEM_PREFIX } from '../catalog.ts';
import type { GatewayParts } from '../ports.ts';
import type { Caller } from '../resolve.ts';

const Filter = Type.Object(
  { system: Type.Optional(Type.String()), task: Type.Optional(Type.String()) },
  { additionalProperties: false },
);

/** A tenant sees its own outcomes only; another's does not exist for it. */
async function findOutcome({ recorder, store }: GatewayParts, id: string, caller: Caller): Promise<Outcome> {
  const outcome = (await recorder.find(id)) ?? (await store.ledger.outcome(id));
  if (!outcome || outcome.plan.tenant !== caller.tenant) throw new ConsortError('outcome_not_found', [id]);
  return outcome;
}

export function records(app: FastifyInstance, parts: GatewayParts): void {
  app.get<{ Params: { id: string } }>('/v1/outcomes/:id', (request) =>
    findOutcome(parts, request.params.id, request.caller),
  );

  app.get<{ Querystring: { system?: string; task?: string } }>(
    '/v1/estimates',
    { schema: { querystring: Filter } },
    async (request) => {
      const { system, task } = request.query;
      const filter = { ...(system && { system }), ...(task !== undefined && { task }) };
      const { mayUse } = request.caller;
      const estimates = await parts.store.estimates.query(filter);
      return { object: 'list', data: estimates.filter((one) => mayUse(`${SYSTEM_PREFIX}${one.system}`)) };
    },
  );

  app.post<{ Body: Feedback }>('/v1/feedback', { schema: { body: Feedback } }, async (request, reply) => {
    const { caller, body } = request;
    if (!caller.mayScore) throw new ConsortError('key_forbidden', [caller.tenant, 'post feedback']);
    let outcome: Outcome;
    try {
      outcome = await findOutcome(parts, body.outcome_id, caller);
    } catch (error) {
      if (ConsortError.is(error) && error.code === 'outcome_not_found') parts.metrics.feedback('unknown');
      throw error;
    }
    const source = `feedback:${body.metric ?? 'user'}`;
    const reward: Reward = {
      v: 1,
      id: `${outcome.id}/${source}`,
      outcomeId: outcome.id,
      value: Number(body.value),
      status: 'graded',
      source: body.source ? `${source}:${body.source}` : source,
      at: parts.clock.now(),
    };
    const kept = parts.recorder.append({ kind: 'reward', pool: outcome.plan.pool.id, reward });
    if (!kept) throw new ConsortError('overloaded', ['The record is full'], { retryAfterMs: 5_000 });
    parts.metrics.feedback('accepted');
    return reply.code(202).send({ outcome_id: outcome.id, source: reward.source, value: reward.value });
  });
}
