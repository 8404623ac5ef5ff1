/**
 * The chat words: what a client sends and what a model reads, in the shape of OpenAI's Chat Completions
 * (https://platform.openai.com/docs/api-reference/chat). Schemas name what Consort reads and leave the rest open:
 * a field that we do not know still reaches a single model untouched.
 */
import Type, { type Static } from 'typebox';

const open = { additionalProperties: true };

export const ContentPart = Type.Union([
  Type.Object({ type: Type.Literal('text'), text: Type.String() }, open),
  Type.Object({ type: Type.Literal('image_url'), image_url: Type.Unknown() }, open),
  Type.Object({ type: Type.Literal('input_audio'), input_audio: Type.Unknown() }, open),
  Type.Object({ type: Type.Literal('file'), file: Type.Unknown() }, open),
  Type.Object({ type: Type.Literal('refusal'), refusal: Type.String() }, open),
]);
export type ContentPart = Static<typeof ContentPart>;

export const ToolCall = Type.Object(
  {
    id: Type.String(),
    type: Type.Literal('function'),
    function: Type.Object({ name: Type.String(), arguments: Type.String() }, open),
  },
  open,
);
export type ToolCall = Static<typeof ToolCall>;

export const ChatMessage = Type.Object(
  {
    role: Type.Union([
      Type.Literal('system'),
      Type.Literal('developer'),
      Type.Literal('user'),
      Type.Literal('assistant'),
      Type.Literal('tool'),
    ]),
    content: Type.Optional(Type.Union([Type.String(), Type.Array(ContentPart), Type.Null()])),
    name: Type.Optional(Type.String()),
    tool_calls: Type.Optional(Type.Array(ToolCall)),
    tool_call_id: Type.Optional(Type.String()),
  },
  open,
);
export type ChatMessage = Static<typeof ChatMessage>;

/** The knobs of one call, in wire spelling so that they travel to an OpenAI-compatible upstream as they are. */
export const Sampling = Type.Object({
  temperature: Type.Optional(Type.Number({ minimum: 0, maximum: 2 })),
  top_p: Type.Optional(Type.Number({ minimum: 0, maximum: 1 })),
  max_tokens: Type.Optional(Type.Integer({ minimum: 1 })),
  max_completion_tokens: Type.Optional(Type.Integer({ minimum: 1 })),
  stop: Type.Optional(Type.Union([Type.String(), Type.Array(Type.String(), { maxItems: 16 }), Type.Null()])),
  presence_penalty: Type.Optional(Type.Number({ minimum: -2, maximum: 2 })),
  frequency_penalty: Type.Optional(Type.Number({ minimum: -2, maximum: 2 })),
  seed: Type.Optional(Type.Integer()),
});
export type Sampling = Static<typeof Sampling>;

/** Token counts of one call or, summed, of one request. */
export const Usage = Type.Object({
  inputTokens: Type.Integer({ minimum: 0 }),
  outputTokens: Type.Integer({ minimum: 0 }),
});
export type Usage = Static<typeof Usage>;

/** The `consort` extension of a request body (architecture, HTTP). Everything in it is optional. */
export const RequestExtension = Type.Object(
  {
    coalition: Type.Optional(Type.Array(Type.String(), { minItems: 1, maxItems: 32, uniqueItems: true })),
    options: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
    budget: Type.Optional(
      Type.Object(
        {
          calls: Type.Optional(Type.Integer({ minimum: 1 })),
          deadlineMs: Type.Optional(Type.Integer({ minimum: 1 })),
          costUsd: Type.Optional(Type.Number({ exclusiveMinimum: 0 })),
        },
        { additionalProperties: false },
      ),
    ),
    seed: Type.Optional(Type.Integer({ minimum: 0 })),
    trace: Type.Optional(Type.Boolean()),
    task: Type.Optional(Type.String({ minLength: 1, maxLength: 200 })),
    gold: Type.Optional(Type.Unknown()),
    verifier: Type.Optional(Type.String({ minLength: 1, maxLength: 100 })),
    params: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
    choices: Type.Optional(Type.Record(Type.String(), Type.String())),
    cluster: Type.Optional(Type.String({ minLength: 1, maxLength: 200 })),
    design: Type.Optional(Type.Union([Type.Literal('full'), Type.Literal('loo')])),
  },
  { additionalProperties: false },
);
export type RequestExtension = Static<typeof RequestExtension>;

/** A Chat Completions request: known fields are checked, unknown ones pass. */
export const ChatRequest = Type.Object(
  {
    model: Type.String({ minLength: 1, maxLength: 400 }),
    messages: Type.Array(ChatMessage, { minItems: 1, maxItems: 4096 }),
    stream: Type.Optional(Type.Union([Type.Boolean(), Type.Null()])),
    stream_options: Type.Optional(
      Type.Union([Type.Object({ include_usage: Type.Optional(Type.Boolean()) }, open), Type.Null()]),
    ),
    n: Type.Optional(Type.Union([Type.Integer({ minimum: 1, maximum: 128 }), Type.Null()])),
    tools: Type.Optional(Type.Array(Type.Unknown())),
    response_format: Type.Optional(Type.Unknown()),
    logprobs: Type.Optional(Type.Union([Type.Boolean(), Type.Null()])),
    top_logprobs: Type.Optional(Type.Union([Type.Integer({ minimum: 0, maximum: 20 }), Type.Null()])),
    ...Object.fromEntries(
      Object.entries(Sampling.properties).map(([name, schema]) => [
        name,
        Type.Optional(Type.Union([schema, Type.Null()])),
      ]),
    ),
    consort: Type.Optional(RequestExtension),
  },
  open,
);
/** Written by hand because the sampling fields are spread from `Sampling`; a type test keeps both in step. */
export interface ChatRequest extends Sampling {
  model: string;
  messages: ChatMessage[];
  stream?: boolean | null;
  stream_options?: { include_usage?: boolean } | null;
  n?: number | null;
  tools?: unknown[];
  response_format?: unknown;
  logprobs?: boolean | null;
  top_logprobs?: number | null;
  consort?: RequestExtension;
  [field: string]: unknown;
}

/** The plain text of a message; parts that are not text are left out. */
export function textOf(message: ChatMessage): string {
  const { content } = message;
  if (typeof content === 'string') return content;
  if (!content) return '';
  let text = '';
  for (const part of content) if (part.type === 'text') text += part.text;
  return text;
}
