/** Items of the Responses API as messages of a chat: each call of a function belongs to the turn before it. */
import Type from 'typebox';
import { Compile } from 'typebox/compile';
import type { ChatMessage, ContentPart } from '../../contract/chat.ts';
import { ConsortError } from '../../contract/errors.ts';
import { faultOf } from '../fault.ts';

const open = { additionalProperties: true };
const parts = Type.Array(Type.Object({ type: Type.String() }, open), { minItems: 1, maxItems: 4096 });
const content = Type.Union([Type.String(), parts]);

const Message = Compile(
  Type.Object(
    {
      role: Type.Union([
        Type.Literal('user'),
        Type.Literal('assistant'),
        Type.Literal('system'),
        Type.Literal('developer'),
      ]),
      content,
    },
    open,
  ),
);
const FunctionCall = Compile(
  Type.Object(
    { call_id: Type.String({ minLength: 1 }), name: Type.String({ minLength: 1 }), arguments: Type.String() },
    open,
  ),
);
const FunctionOutput = Compile(Type.Object({ call_id: Type.String(), output: content }, open));

type At = readonly (string | number)[];
type Fields = Readonly<Record<string, unknown>>;

function wrong(at: At, what: string): ConsortError {
  const field = at.join('.');
  return new ConsortError('invalid_request', [field, what], { param: field });
}

function unsupported(at: At, value: unknown): ConsortError {
  const field = at.join('.');
  const shown = JSON.stringify(value ?? null).slice(0, 80);
  return new ConsortError('not_supported', [field, shown, 'POST /v1/responses'], { param: field });
}

function text(part: Fields, name: string, at: At): string {
  const value = part[name];
  if (typeof value !== 'string') throw wrong([...at, name], 'must be a string');
  return value;
}

const PARTS: Readonly<Record<string, (part: Fields, at: At) => ContentPart>> = {
  input_text: (part, at) => ({ type: 'text', text: text(part, 'text', at) }),
  output_text: (part, at) => ({ type: 'text', text: text(part, 'text', at) }),
  refusal: (part, at) => ({ type: 'refusal', refusal: text(part, 'refusal', at) }),
  input_image: (part, at) => {
    if (typeof part['file_id'] === 'string') throw unsupported([...at, 'file_id'], part['file_id']);
    const { detail } = part;
    const url = text(part, 'image_url', at);
    return { type: 'image_url', image_url: { url, ...(typeof detail === 'string' && { detail }) } };
  },
  input_file: (part, at) => {
    for (const field of ['file_id', 'file_url']) {
      if (typeof part[field] === 'string') throw unsupported([...at, field], part[field]);
    }
    const { filename } = part;
    const data = text(part, 'file_data', at);
    return { type: 'file', file: { ...(typeof filename === 'string' && { filename }), file_data: data } };
  },
  input_audio: ({ input_audio }) => ({ type: 'input_audio', input_audio }),
};

/** Texts alone become one text: not every server reads lists. */
function contentOf(given: string | readonly Fields[], at: At): string | ContentPart[] {
  if (typeof given === 'string') return given;
  const read = given.map((part, index) => {
    const here = [...at, index];
    const type = String(part['type']);
    const kind = Object.hasOwn(PARTS, type) ? PARTS[type] : undefined;
    if (!kind) throw unsupported([...here, 'type'], part['type']);
    return kind(part, here);
  });
  const [only] = read;
  return read.length === 1 && only?.type === 'text' ? only.text : read;
}

class Conversation {
  readonly #messages: ChatMessage[];
  readonly #calls = new Set<string>();

  constructor(before: readonly ChatMessage[]) {
    this.#messages = [...before];
    for (const { tool_calls: calls } of before) for (const { id } of calls ?? []) this.#calls.add(id);
  }

  get messages(): readonly ChatMessage[] {
    return this.#messages;
  }

  add(item: Fields, at: At): void {
    const type = item['type'] ?? ('role' in item ? 'message' : undefined);
    switch (type) {
      case 'message':
        return this.#message(item, at);
      case 'function_call':
        return this.#call(item, at);
      case 'function_call_output':
        return this.#output(item, at);
      case 'reasoning':
        // What a model thought is its own; the answers that came of it are in the conversation.
        return undefined;
      default:
        throw unsupported([...at, 'type'], type);
    }
  }

  #message(item: Fields, at: At): void {
    if (!Message.Check(item)) throw faultOf(Message, item, at);
    this.#messages.push({ role: item.role, content: contentOf(item.content, [...at, 'content']) });
  }

  #call(item: Fields, at: At): void {
    if (!FunctionCall.Check(item)) throw faultOf(FunctionCall, item, at);
    const { call_id: id, name, arguments: args } = item;
    const call = { id, type: 'function' as const, function: { name, arguments: args } };
    const last = this.#messages.at(-1);
    this.#calls.add(id);
    if (last?.role !== 'assistant') {
      this.#messages.push({ role: 'assistant', content: null, tool_calls: [call] });
      return;
    }
    this.#messages[this.#messages.length - 1] = { ...last, tool_calls: [...(last.tool_calls ?? []), call] };
  }

  #output(item: Fields, at: At): void {
    if (!FunctionOutput.Check(item)) throw faultOf(FunctionOutput, item, at);
    const { call_id: id, output } = item;
    if (!this.#calls.has(id)) {
      throw wrong([...at, 'call_id'], `${JSON.stringify(id)} answers no call of this conversation`);
    }
    this.#messages.push({ role: 'tool', tool_call_id: id, content: contentOf(output, [...at, 'output']) });
  }
}

/**
 * The conversation with what the request adds to it.
 *
 * @throws `invalid_request`, `not_supported` with the item at fault
 */
export function messagesOf(
  input: string | readonly unknown[],
  before: readonly ChatMessage[],
): readonly ChatMessage[] {
  const conversation = new Conversation(before);
  const items = typeof input === 'string' ? [{ role: 'user', content: input }] : input;
  for (const [index, item] of items.entries()) {
    const at = typeof input === 'string' ? ['input'] : ['input', index];
    if (typeof item !== 'object' || item === null || Array.isArray(item))
      throw wrong(at, 'must be an object');
    conversation.add({ ...item }, at);
  }
  const { messages } = conversation;
  if (messages.length === 0) throw wrong(['input'], 'must say something');
  if (messages.length > 4096) throw wrong(['input'], 'makes a conversation of more than 4096 messages');
  return messages;
}
