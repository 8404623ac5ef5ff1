/** POST /v1/embeddings: one plain model's, passed through. */
import type { FastifyInstance } from 'fastify';
import Type, { type Static } from 'typebox';
import { RequestExtension, type ChatMessage } from '../../contract/chat.ts';
import { ConsortError } from '../../contract/errors.ts';
import type { GatewayParts } from '../ports.ts';
import type { Wire } from '../wire/wire.ts';
import { answer, decide } from './answer.ts';
import { passed } from './passed.ts';

/** What is embedded is between the client and its model: servers take more than OpenAI's does. */
const EmbeddingsRequest = Type.Object(
  {
    model: Type.String({ minLength: 1, maxLength: 400 }),
    input: Type.Optional(Type.Unknown()),
    stream: Type.Optional(Type.Union([Type.Literal(false), Type.Null()])),
    consort: Type.Optional(RequestExtension),
  },
  { additionalProperties: true },
);
type EmbeddingsRequest = Static<typeof EmbeddingsRequest> & { readonly [field: string]: unknown };

export function embeddings(app: FastifyInstance, parts: GatewayParts): void {
  app.post<{ Body: EmbeddingsRequest }>(
    '/v1/embeddings',
    { schema: { body: EmbeddingsRequest }, config: { isLimited: true } },
    async (request, reply) => {
      const { body, caller } = request;
      const { model, input, consort } = body;
      const chat = { model, messages: [textsOf(input)], ...(consort && { consort }) };
      const decided = await decide(parts, chat, caller);
      const resolved = passed(parts, decided, 'embeddings', body);
      if (!resolved) throw refusal(model, decided.system.plain);
      return answer(parts, { resolved, stream: false, trace: false, wireOf: () => BYTES }, request, reply);
    },
  );
}

/** The texts as a message, for whoever counts what goes in. */
function textsOf(input: unknown): ChatMessage {
  const texts = [input].flat().filter((one) => typeof one === 'string');
  return { role: 'user', content: texts.map((text) => ({ type: 'text', text })) };
}

function refusal(model: string, isPlain: boolean): ConsortError {
  const why = isPlain
    ? 'POST /v1/embeddings: its provider has no embeddings'
    : 'POST /v1/embeddings: a team has none, they are one model’s';
  return new ConsortError('not_supported', ['model', JSON.stringify(model), why], { param: 'model' });
}

/** Whatever is answered has come as bytes. */
const BYTES: Wire = {
  body(_results, raw) {
    if (raw === undefined) throw new TypeError('embeddings without their bytes');
    return raw;
  },
  open() {
    throw new TypeError('embeddings are not streamed');
  },
};
