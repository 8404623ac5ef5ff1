/** POST /v1/chat/completions: one run, encoded as a stream or as a body. */
import type { FastifyInstance } from 'fastify';
import { ChatRequest } from '../../contract/chat.ts';
import type { GatewayParts } from '../ports.ts';
import { chatBody } from '../wire/chat-body.ts';
import { ChatStream } from '../wire/chat-stream.ts';
import type { About, Wire } from '../wire/wire.ts';
import { answer, decide } from './answer.ts';

export function chatCompletions(app: FastifyInstance, parts: GatewayParts): void {
  app.post<{ Body: ChatRequest }>(
    '/v1/chat/completions',
    { schema: { body: ChatRequest }, config: { isLimited: true } },
    async (request, reply) => {
      const { body, caller } = request;
      const resolved = await decide(parts, body, caller);
      const trace = body.consort?.trace === true;
      const wireOf = (about: About) => chatWire(about, body);
      return answer(parts, { resolved, stream: body.stream === true, trace, wireOf }, request, reply);
    },
  );
}

function chatWire(about: About, { stream_options: options }: ChatRequest): Wire {
  const id = `chatcmpl-${about.id}`;
  return {
    body: (results, raw) => raw ?? chatBody(results, { ...about, id }),
    open: (stream) => new ChatStream(stream, { ...about, id, includeUsage: options?.include_usage === true }),
  };
}
