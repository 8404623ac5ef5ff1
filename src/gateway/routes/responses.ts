/** /v1/responses: the Responses API. Inside it is a chat, so protocols know nothing of it. */
import type { FastifyInstance } from 'fastify';
import type { RunResult } from '../../contract/capabilities.ts';
import type { ChatMessage } from '../../contract/chat.ts';
import { ConsortError } from '../../contract/errors.ts';
import type { GatewayParts } from '../ports.ts';
import { endOf, frameOf, outputOf, turnOf, usageOf, type Item } from '../wire/responses-body.ts';
import { messagesOf } from '../wire/responses-items.ts';
import {
  alternativesOf,
  chatOf,
  checkForTeam,
  checkSupported,
  ResponsesRequest,
} from '../wire/responses-request.ts';
import { ResponsesStream } from '../wire/responses-stream.ts';
import { traceFields } from '../wire/trace-body.ts';
import type { About, Wire } from '../wire/wire.ts';
import { answer, decide } from './answer.ts';

export function responses(app: FastifyInstance, parts: GatewayParts): void {
  const { responses: kept } = parts;
  app.post<{ Body: ResponsesRequest }>(
    '/v1/responses',
    { schema: { body: ResponsesRequest }, config: { isLimited: true } },
    async (request, reply) => {
      const { body, caller } = request;
      checkSupported(body);
      const before = body.previous_response_id;
      const earlier = before ? await kept.find(caller.tenant, before, 'previous_response_id') : undefined;
      const messages = messagesOf(body.input, earlier?.messages ?? []);
      const resolved = await decide(parts, chatOf(body, messages), caller);
      if (!resolved.system.plain) checkForTeam(body);
      const wireOf = (about: About) => responsesWire(about, body, messages, keeperOf(parts, caller.tenant));
      const trace = body.consort?.trace === true;
      return answer(parts, { resolved, stream: body.stream === true, trace, wireOf }, request, reply);
    },
  );

  app.get<{ Params: { id: string }; Querystring: { stream?: string } }>(
    '/v1/responses/:id',
    async ({ params, query, caller }) => {
      if (query.stream === 'true') {
        const who = 'GET /v1/responses: a response that is kept has ended';
        throw new ConsortError('not_supported', ['stream', true, who], { param: 'stream' });
      }
      return (await kept.find(caller.tenant, params.id)).response;
    },
  );

  app.delete<{ Params: { id: string } }>('/v1/responses/:id', async ({ params, caller }) => {
    await kept.forget(caller.tenant, params.id);
    return { id: params.id, object: 'response', deleted: true };
  });
}

type Keeper = (
  id: string,
  response: Readonly<Record<string, unknown>>,
  messages: readonly ChatMessage[],
) => Promise<boolean>;

function keeperOf({ responses: kept }: GatewayParts, tenant: string): Keeper {
  return (id, response, messages) => kept.keep(tenant, id, { response, messages: [...messages] });
}

function responsesWire(
  about: About,
  body: ResponsesRequest,
  messages: readonly ChatMessage[],
  keep: Keeper,
): Wire {
  const frame = frameOf(body, about);
  const topLogprobs = alternativesOf(body);
  /** The response as it has ended; it says whether it could be kept. */
  const complete = async ({ answer: said, outcome }: RunResult, output: readonly Item[]) => {
    const response = {
      ...frame,
      ...endOf(said?.finishReason ?? 'stop'),
      completed_at: Math.floor((outcome.startedAt + outcome.durationMs) / 1000),
      output,
      usage: usageOf(outcome.usage),
      ...(about.trace && { consort: { ...frame.consort, ...traceFields([outcome]) } }),
    };
    const isKept =
      body.store !== false &&
      said !== undefined &&
      (await keep(frame.id, response, [...messages, turnOf(said)]));
    return { ...response, store: isKept };
  };
  return {
    async body([result]) {
      if (!result?.answer) throw new TypeError('a response without an answer');
      const response = await complete(result, outputOf(result.answer, about.id, topLogprobs));
      return JSON.stringify(response);
    },
    open: (stream) => new ResponsesStream(stream, { frame, run: about.id, topLogprobs, complete }),
  };
}
