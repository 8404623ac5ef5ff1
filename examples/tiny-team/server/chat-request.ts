/** A Chat Completions body, checked field by field. Fields that this server has no use for are ignored. */
import type { Token } from 'node-llama-cpp';
import { badField } from './request-error.ts';

export type Role = 'system' | 'user' | 'assistant';

export interface Turn {
  role: Role;
  content: string;
}

export interface ChatRequest {
  model: string;
  turns: Turn[];
  temperature: number;
  topP: number;
  seed: number | undefined;
  stop: string[];
  maxTokens: number | undefined;
  n: number;
  stream: boolean;
  includeUsage: boolean;
  logprobs: boolean;
  topLogprobs: number;
  /** Which tokens' log-probabilities are shown in the place of the likeliest. */
  logprobTokenIds: Token[] | undefined;
  /** Whether tokens are named by their ids. */
  tokensAsIds: boolean;
  returnTokenIds: boolean;
  /** Whether the reply goes on with the last turn. */
  continues: boolean;
  /** Whether the prompt ends with the opening of the reply. */
  opensReply: boolean;
}

export type Fields = Record<string, unknown>;

const roles: Record<string, Role> = {
  system: 'system',
  developer: 'system',
  user: 'user',
  assistant: 'assistant',
};

export function chatRequest(body: unknown): ChatRequest {
  if (!isFields(body)) throw badField('body', body, 'a JSON object');
  if (typeof body['model'] !== 'string') throw badField('model', body['model'], 'the id of a model');
  refuse(body, 'tools', 'nothing: these models call no tools');
  refuse(body, 'response_format', 'nothing: these models know one form only');
  const logprobs = flag(body, 'logprobs');
  const topLogprobs = number(body, 'top_logprobs', { from: 0, to: 20, whole: true }) ?? 0;
  if (topLogprobs > 0 && !logprobs)
    throw badField('top_logprobs', topLogprobs, 'logprobs to be true as well');
  const logprobTokenIds = tokenIds(body, 'logprob_token_ids');
  if (logprobTokenIds && !logprobs)
    throw badField('logprob_token_ids', logprobTokenIds, 'logprobs to be true as well');
  const continues = flag(body, 'continue_final_message');
  if (continues && body['add_generation_prompt'] === true)
    throw badField('add_generation_prompt', true, 'false where continue_final_message is true');
  const limit = { from: 1, to: Number.MAX_SAFE_INTEGER, whole: true };
  return {
    model: body['model'],
    turns: turns(body['messages']),
    temperature: number(body, 'temperature', { from: 0, to: 2 }) ?? 1,
    topP: number(body, 'top_p', { from: 0, to: 1 }) ?? 1,
    seed: number(body, 'seed', {
      from: Number.MIN_SAFE_INTEGER,
      to: Number.MAX_SAFE_INTEGER,
      whole: true,
    }),
    stop: stops(body['stop']),
    maxTokens: number(body, 'max_completion_tokens', limit) ?? number(body, 'max_tokens', limit),
    n: number(body, 'n', { from: 1, to: 16, whole: true }) ?? 1,
    stream: flag(body, 'stream'),
    includeUsage: isFields(body['stream_options']) && flag(body['stream_options'], 'include_usage'),
    logprobs,
    topLogprobs,
    logprobTokenIds,
    tokensAsIds: flag(body, 'return_tokens_as_token_ids'),
    returnTokenIds: flag(body, 'return_token_ids'),
    continues,
    opensReply: !continues && flag({ add_generation_prompt: true, ...body }, 'add_generation_prompt'),
  };
}

function turns(messages: unknown): Turn[] {
  if (!Array.isArray(messages) || messages.length === 0) {
    throw badField('messages', messages, 'a list of at least one message');
  }
  return messages.map((message: unknown, index) => {
    const at = `messages[${index}]`;
    if (!isFields(message)) throw badField(at, message, 'an object with role and content');
    const role = roles[String(message['role'])];
    if (!role) throw badField(`${at}.role`, message['role'], `one of ${Object.keys(roles).join(', ')}`);
    return { role, content: text(message['content'], `${at}.content`) };
  });
}

function text(content: unknown, at: string): string {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) throw badField(at, content, 'a text or a list of text parts');
  const parts = content.map((part: unknown, index) => {
    if (isFields(part) && part['type'] === 'text' && typeof part['text'] === 'string') return part['text'];
    throw badField(`${at}[${index}]`, part, 'a text part');
  });
  return parts.join('');
}

export function stops(stop: unknown): string[] {
  const list = stop === undefined || stop === null ? [] : typeof stop === 'string' ? [stop] : stop;
  const isStop = (each: unknown): each is string => typeof each === 'string' && each !== '';
  if (Array.isArray(list) && list.length <= 16 && list.every(isStop)) return list;
  throw badField('stop', stop, 'a text, or a list of up to 16 texts, none of them empty');
}

export function number(
  body: Fields,
  field: string,
  { from, to, whole = false }: { from: number; to: number; whole?: boolean },
): number | undefined {
  const value = body[field];
  if (value === undefined || value === null) return undefined;
  const fits = typeof value === 'number' && value >= from && value <= to;
  if (fits && (!whole || Number.isSafeInteger(value))) return value;
  const range = to === Number.MAX_SAFE_INTEGER ? `of ${from} or more` : `from ${from} to ${to}`;
  throw badField(field, value, `${whole ? 'a whole number' : 'a number'} ${range}`);
}

export function flag(body: Fields, field: string): boolean {
  const value = body[field] ?? false;
  if (typeof value !== 'boolean') throw badField(field, value, 'true or false');
  return value;
}

export function tokenIds(body: Fields, field: string): Token[] | undefined {
  const value = body[field] ?? undefined;
  if (value === undefined || isTokens(value)) return value;
  throw badField(field, value, 'a list of token ids, not empty');
}

export function isTokens(value: unknown): value is Token[] {
  const isToken = (id: unknown): boolean => Number.isSafeInteger(id) && Number(id) >= 0;
  return Array.isArray(value) && value.length > 0 && value.every(isToken);
}

export function refuse(body: Fields, field: string, expected: string): void {
  const value = body[field];
  const empty = Array.isArray(value) && value.length === 0;
  const plain = isFields(value) && value['type'] === 'text';
  if (value !== undefined && value !== null && !empty && !plain) throw badField(field, value, expected);
}

export function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
