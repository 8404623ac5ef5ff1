/** The Responses API, whole: the object of a response and the items of its output. */
import type { Answer } from '../../contract/call.ts';
import type { ChatMessage, Usage } from '../../contract/chat.ts';
import type { ConsortError } from '../../contract/errors.ts';
import type { FinishReason } from '../../contract/part.ts';
import type { ResponsesRequest } from './responses-request.ts';
import type { About } from './wire.ts';

export type ItemStatus = 'in_progress' | 'completed' | 'incomplete';
export type Item = { readonly id: string; readonly type: string } & Readonly<Record<string, unknown>>;

export function textPart(text: string, logprobs: readonly unknown[] = []): object {
  return { type: 'output_text', text, annotations: [], logprobs };
}

export function messageItem(id: string, status: ItemStatus, content: readonly object[]): Item {
  return { id, type: 'message', role: 'assistant', status, content };
}

export function reasoningItem(id: string, status: ItemStatus, content: readonly object[]): Item {
  return { id, type: 'reasoning', status, summary: [], content };
}

/** A call of a function as it is known so far. */
export interface CalledFunction {
  readonly callId: string;
  readonly name: string;
  readonly arguments: string;
}

export function callItem(id: string, status: ItemStatus, called: CalledFunction): Item {
  const { callId, name, arguments: args } = called;
  return { id, type: 'function_call', status, call_id: callId, name, arguments: args };
}

/** The items of an answer that has come whole. */
export function outputOf({ message, logprobs, finishReason }: Answer, run: string, top?: number): Item[] {
  const output: Item[] = [];
  const name = (prefix: string) => `${prefix}_${run}_${output.length}`;
  const status = endOf(finishReason).status === 'incomplete' ? 'incomplete' : 'completed';
  const calls = message.toolCalls ?? [];
  if (message.reasoning) {
    const part = { type: 'reasoning_text', text: message.reasoning };
    output.push(reasoningItem(name('rs'), 'completed', [part]));
  }
  if (message.text !== '') {
    const part = textPart(message.text, top === undefined ? [] : cut(logprobs ?? [], top));
    output.push(messageItem(name('msg'), status, [part]));
  }
  for (const { id, function: called } of calls) {
    output.push(callItem(name('fc'), status, { callId: id, ...called }));
  }
  return output;
}

/** No more alternatives than the client wants. */
export function cut(logprobs: readonly unknown[], top: number): unknown[] {
  return logprobs.map((entry) => {
    if (typeof entry !== 'object' || entry === null) return entry;
    const tops = 'top_logprobs' in entry && Array.isArray(entry.top_logprobs) ? entry.top_logprobs : [];
    return { ...entry, top_logprobs: tops.slice(0, top) };
  });
}

/** The answer as the next turn of the conversation has it. */
export function turnOf({ message }: Answer): ChatMessage {
  const { text, toolCalls } = message;
  return {
    role: 'assistant',
    content: text === '' && toolCalls ? null : text,
    ...(toolCalls && { tool_calls: [...toolCalls] }),
  };
}

/** How a response ends by what its model says of the end. */
export function endOf(reason: FinishReason): {
  status: 'completed' | 'incomplete';
  incomplete_details: object | null;
} {
  if (reason === 'length') {
    return { status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } };
  }
  if (reason === 'content_filter') {
    return { status: 'incomplete', incomplete_details: { reason: 'content_filter' } };
  }
  return { status: 'completed', incomplete_details: null };
}

/** Ours are not among the codes of the API, which its clients know; ours stands beside it. */
export function failureOf(error: ConsortError): { error: object; consort: object } {
  const { error: body } = error.toBody();
  const blamesRequest = body.type === 'invalid_request_error' ? 'invalid_prompt' : 'server_error';
  const code = error.status === 429 ? 'rate_limit_exceeded' : blamesRequest;
  return { error: { code, message: body.message }, consort: { error: body } };
}

export function usageOf({ inputTokens, outputTokens }: Usage): object {
  return {
    input_tokens: inputTokens,
    input_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
    output_tokens: outputTokens,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: inputTokens + outputTokens,
  };
}

/** What every state of a response says of the request. */
export function frameOf(body: ResponsesRequest, { id, created, model, fingerprint }: About) {
  return {
    id: `resp_${id}`,
    object: 'response',
    created_at: created,
    status: 'in_progress',
    background: false,
    completed_at: null,
    error: null,
    incomplete_details: null,
    instructions: body.instructions ?? null,
    max_output_tokens: body.max_output_tokens ?? null,
    max_tool_calls: null,
    metadata: body.metadata ?? {},
    model,
    output: [],
    parallel_tool_calls: body.parallel_tool_calls ?? true,
    previous_response_id: body.previous_response_id ?? null,
    reasoning: { effort: body.reasoning?.effort ?? null, summary: null },
    store: body.store ?? true,
    temperature: body.temperature ?? null,
    text: { format: body.text?.format ?? { type: 'text' } },
    tool_choice: body.tool_choice ?? 'auto',
    tools: body.tools ?? [],
    top_logprobs: body.top_logprobs ?? 0,
    top_p: body.top_p ?? null,
    truncation: 'disabled',
    usage: null,
    user: body.user ?? null,
    ...(fingerprint !== undefined && { consort: { simulated: true } }),
  };
}
export type Frame = Readonly<ReturnType<typeof frameOf>>;
