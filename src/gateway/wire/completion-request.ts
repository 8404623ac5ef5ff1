/** A request to the legacy completions (https://platform.openai.com/docs/api-reference/completions), and as a chat. */
import Type from 'typebox';
import { ChatRequest, RequestExtension, Sampling } from '../../contract/chat.ts';
import { ConsortError } from '../../contract/errors.ts';

const nullable = <S extends Type.TSchema>(schema: S) => Type.Optional(Type.Union([schema, Type.Null()]));

const SAMPLING_FIELDS = Object.keys(Sampling.properties);
const chat = ChatRequest.properties;

/** Known fields are checked, unknown ones pass. */
export const CompletionRequest = Type.Object(
  {
    model: chat.model,
    prompt: Type.Optional(Type.Unknown()),
    stream: chat.stream,
    stream_options: chat.stream_options,
    n: chat.n,
    logprobs: nullable(Type.Integer({ minimum: 0, maximum: 20 })),
    echo: nullable(Type.Boolean()),
    suffix: nullable(Type.String()),
    best_of: nullable(Type.Integer({ minimum: 1 })),
    ...Object.fromEntries(Object.entries(chat).filter(([name]) => SAMPLING_FIELDS.includes(name))),
    // None at all, with `echo`, asks for the log-probabilities of the prompt.
    max_tokens: nullable(Type.Integer({ minimum: 0 })),
    consort: Type.Optional(RequestExtension),
  },
  { additionalProperties: true },
);
/** Written by hand, as `ChatRequest` is. */
export interface CompletionRequest extends Sampling {
  model: string;
  prompt?: unknown;
  stream?: boolean | null;
  stream_options?: { include_usage?: boolean } | null;
  n?: number | null;
  logprobs?: number | null;
  echo?: boolean | null;
  suffix?: string | null;
  best_of?: number | null;
  consort?: RequestExtension;
  [field: string]: unknown;
}

/** The prompt as one turn of the user's; of prompts that only a plain model takes, the texts. */
export function chatOf(body: CompletionRequest): ChatRequest {
  const { prompt, logprobs, echo: _echo, suffix: _suffix, best_of: _best, ...rest } = body;
  const texts = [prompt].flat().filter((one) => typeof one === 'string');
  const content =
    typeof prompt === 'string' ? prompt : texts.map((text) => ({ type: 'text' as const, text }));
  return {
    ...rest,
    messages: [{ role: 'user', content }],
    ...(typeof logprobs === 'number' && { logprobs: true, top_logprobs: logprobs }),
  };
}

/**
 * What cannot be asked of whoever answers in a chat is refused by name.
 *
 * @throws `not_supported`, `invalid_request`
 */
export function checkAsChat(body: CompletionRequest): void {
  const { prompt, suffix, best_of: best, n, echo, logprobs, max_tokens: most } = body;
  const refuse = (field: string, value: unknown, who = 'who answers in a chat') => {
    const shown = JSON.stringify(value).slice(0, 80);
    throw new ConsortError('not_supported', [field, shown, who], { param: field });
  };
  if (prompt === undefined || prompt === null) {
    throw new ConsortError('invalid_request', ['prompt', 'must be a string'], { param: 'prompt' });
  }
  if (typeof prompt !== 'string') refuse('prompt', prompt, 'who answers in a chat: it reads one string');
  if (suffix) refuse('suffix', suffix);
  if (typeof best === 'number' && best !== (n ?? 1)) refuse('best_of', best);
  if (most === 0) refuse('max_tokens', most);
  if (echo && typeof logprobs === 'number') {
    refuse('logprobs', logprobs, 'who answers in a chat, for an echoed prompt');
  }
}
