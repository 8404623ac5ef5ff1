/** POST /v1/completions, the legacy one: a plain model's passes through, a team answers the prompt as a turn of a chat. */
import type { FastifyInstance } from 'fastify';
import type { GatewayParts } from '../ports.ts';
import { completionBody } from '../wire/completion-body.ts';
import { chatOf, checkAsChat, CompletionRequest } from '../wire/completion-request.ts';
import { CompletionStream } from '../wire/completion-stream.ts';
import type { About, Wire } from '../wire/wire.ts';
import { answer, decide } from './answer.ts';
import { passed } from './passed.ts';

export function completions(app: FastifyInstance, parts: GatewayParts): void {
  app.post<{ Body: CompletionRequest }>(
    '/v1/completions',
    { schema: { body: CompletionRequest }, config: { isLimited: true } },
    async (request, reply) => {
      const { body, caller } = request;
      const decided = await decide(parts, chatOf(body), caller);
      const own = passed(parts, decided, 'completions', body);
      if (!own) checkAsChat(body);
      const trace = body.consort?.trace === true;
      const wireOf = (about: About) => completionWire({ ...about, plain: own !== undefined }, body);
      const wanted = { resolved: own ?? decided, stream: body.stream === true, trace, wireOf };
      return answer(parts, wanted, request, reply);
    },
  );
}

function completionWire(about: About, { echo, prompt, stream_options: asked }: CompletionRequest): Wire {
  const options = {
    ...about,
    id: `cmpl-${about.id}`,
    echo: echo && typeof prompt === 'string' ? prompt : '',
    includeUsage: asked?.include_usage === true,
  };
  return {
    body: (results, raw) => (about.plain && raw !== undefined ? raw : completionBody(results, options)),
    open: (stream) => new CompletionStream(stream, options),
  };
}
