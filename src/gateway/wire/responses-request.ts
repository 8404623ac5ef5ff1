/** A request of the Responses API (https://platform.openai.com/docs/api-reference/responses), and as a chat. */
import Type from 'typebox';
import { ChatRequest, RequestExtension, type ChatMessage } from '../../contract/chat.ts';
import { ConsortError } from '../../contract/errors.ts';

const nullable = <S extends Type.TSchema>(schema: S) => Type.Optional(Type.Union([schema, Type.Null()]));
const open = { additionalProperties: true };
const chat = ChatRequest.properties;
const word = nullable(Type.String({ maxLength: 500 }));

export const ResponsesRequest = Type.Object(
  {
    model: chat.model,
    input: Type.Union([Type.String(), Type.Array(Type.Unknown(), { maxItems: 4096 })]),
    instructions: nullable(Type.String()),
    previous_response_id: nullable(Type.String({ maxLength: 200 })),
    store: nullable(Type.Boolean()),
    stream: nullable(Type.Boolean()),
    stream_options: nullable(Type.Object({}, open)),
    max_output_tokens: nullable(Type.Integer({ minimum: 1 })),
    temperature: nullable(Type.Number({ minimum: 0, maximum: 2 })),
    top_p: nullable(Type.Number({ minimum: 0, maximum: 1 })),
    top_logprobs: nullable(Type.Integer({ minimum: 0, maximum: 20 })),
    tools: nullable(Type.Array(Type.Object({ type: Type.String() }, open), { maxItems: 1024 })),
    tool_choice: nullable(
      Type.Union([
        Type.String(),
        Type.Object({ type: Type.String(), name: Type.Optional(Type.String()) }, open),
      ]),
    ),
    parallel_tool_calls: nullable(Type.Boolean()),
    reasoning: nullable(Type.Object({ effort: word, summary: word, generate_summary: word }, open)),
    text: nullable(
      Type.Object({ format: nullable(Type.Object({ type: Type.String() }, open)), verbosity: word }, open),
    ),
    metadata: nullable(Type.Record(Type.String(), Type.String({ maxLength: 512 }), { maxProperties: 16 })),
    include: nullable(Type.Array(Type.String())),
    user: word,
    safety_identifier: word,
    prompt_cache_key: word,
    service_tier: word,
    consort: Type.Optional(RequestExtension),
  },
  open,
);
export type ResponsesRequest = Type.Static<typeof ResponsesRequest> & { readonly [field: string]: unknown };

/** Fields of the API that nothing here can honour, with the values that ask nothing. */
const UNSUPPORTED: ReadonlyMap<string, readonly unknown[]> = new Map(
  Object.entries<readonly unknown[]>({
    background: [false],
    conversation: [],
    prompt: [],
    truncation: ['disabled'],
    max_tool_calls: [],
    context_management: [],
    moderation: [],
    prompt_cache_options: [],
    prompt_cache_retention: ['in_memory'],
  }),
);
/** What may be included, and whether that changes anything: no reasoning of ours is encrypted. */
const INCLUDABLE = ['message.output_text.logprobs', 'reasoning.encrypted_content'];
/** Of these the chat has the same. */
const SAME = [
  'temperature',
  'top_p',
  'user',
  'safety_identifier',
  'prompt_cache_key',
  'service_tier',
] as const;

function refuse(field: string, value: unknown, who = 'POST /v1/responses'): never {
  throw new ConsortError('not_supported', [field, JSON.stringify(value).slice(0, 80), who], { param: field });
}

/** @throws `not_supported` with the field that cannot be honoured */
export function checkSupported(body: ResponsesRequest): void {
  for (const [field, value] of Object.entries(body)) {
    const isKnown = Object.hasOwn(ResponsesRequest.properties, field);
    const isNeutral = value === null || value === undefined || UNSUPPORTED.get(field)?.includes(value);
    if (!isKnown && !isNeutral) refuse(field, value);
  }
  for (const one of body.include ?? []) if (!INCLUDABLE.includes(one)) refuse('include', one);
  for (const field of ['summary', 'generate_summary'] as const) {
    const wanted = body.reasoning?.[field] ?? 'auto';
    if (wanted !== 'auto') refuse(`reasoning.${field}`, wanted);
  }
}

/**
 * A team does not hand these on to its members.
 *
 * @throws `not_supported`
 */
export function checkForTeam({ model, reasoning, text }: ResponsesRequest): void {
  if (reasoning?.effort) refuse('reasoning.effort', reasoning.effort, `team ${model}`);
  if (text?.verbosity) refuse('text.verbosity', text.verbosity, `team ${model}`);
}

/** Alternatives a token that the client wants to see; undefined when it wants no log-probabilities. */
export function alternativesOf({ top_logprobs: top, include }: ResponsesRequest): number | undefined {
  return top || include?.includes('message.output_text.logprobs') ? (top ?? 0) : undefined;
}

/** @param messages the conversation, without the instructions */
export function chatOf(body: ResponsesRequest, messages: readonly ChatMessage[]): ChatRequest {
  const { model, instructions, text, tools, reasoning, consort, tool_choice: choice } = body;
  const fields: Record<string, unknown> = {};
  for (const field of SAME)
    if (body[field] !== undefined && body[field] !== null) fields[field] = body[field];
  const limit = body.max_output_tokens;
  if (typeof limit === 'number') fields['max_completion_tokens'] = limit;
  if (reasoning?.effort) fields['reasoning_effort'] = reasoning.effort;
  if (text?.verbosity) fields['verbosity'] = text.verbosity;
  const format = formatOf(text?.format);
  if (format) fields['response_format'] = format;
  const top = alternativesOf(body);
  if (top !== undefined) Object.assign(fields, { logprobs: true, top_logprobs: top });
  if (tools?.length) {
    fields['tools'] = tools.map(toolOf);
    if (typeof body.parallel_tool_calls === 'boolean')
      fields['parallel_tool_calls'] = body.parallel_tool_calls;
  }
  if (choice) fields['tool_choice'] = choiceOf(choice);
  const first: ChatMessage[] = instructions ? [{ role: 'system', content: instructions }] : [];
  return { ...fields, model, messages: [...first, ...messages], ...(consort && { consort }) };
}

function toolOf(tool: Readonly<Record<string, unknown>>, index: number): object {
  const { type, name, description, parameters, strict } = tool;
  if (type !== 'function') refuse(`tools.${index}.type`, type);
  if (typeof name !== 'string' || name === '') {
    const field = `tools.${index}.name`;
    throw new ConsortError('invalid_request', [field, 'must be a string'], { param: field });
  }
  return {
    type: 'function',
    function: {
      name,
      ...(typeof description === 'string' && { description }),
      ...(parameters !== undefined && parameters !== null && { parameters }),
      ...(typeof strict === 'boolean' && { strict }),
    },
  };
}

function choiceOf(choice: NonNullable<ResponsesRequest['tool_choice']>): unknown {
  if (typeof choice === 'string') {
    return ['auto', 'none', 'required'].includes(choice) ? choice : refuse('tool_choice', choice);
  }
  const { type, name } = choice;
  if (type !== 'function' || name === undefined) return refuse('tool_choice', choice);
  return { type, function: { name } };
}

function formatOf(format: Readonly<Record<string, unknown>> | null | undefined): object | undefined {
  switch (format?.['type'] ?? 'text') {
    case 'text':
      return undefined;
    case 'json_object':
      return { type: 'json_object' };
    case 'json_schema': {
      const { name, schema, description, strict } = format ?? {};
      const more = {
        ...(description !== undefined && { description }),
        ...(strict !== undefined && { strict }),
      };
      return { type: 'json_schema', json_schema: { name, schema, ...more } };
    }
    default:
      return refuse('text.format.type', format?.['type']);
  }
}
