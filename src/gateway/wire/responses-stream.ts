/** The Responses API, streamed: named events in a sequence, each item opened, filled and closed. */
import type { RunResult } from '../../contract/capabilities.ts';
import type { ConsortError } from '../../contract/errors.ts';
import type { Part, ToolCallDelta } from '../../contract/part.ts';
import {
  callItem,
  cut,
  failureOf,
  messageItem,
  reasoningItem,
  textPart,
  type Frame,
  type Item,
  type ItemStatus,
} from './responses-body.ts';
import type { SseStream } from './sse-stream.ts';
import type { Writer } from './wire.ts';

interface OpenText {
  readonly kind: 'message' | 'reasoning';
  readonly index: number;
  readonly id: string;
  text: string;
  readonly logprobs: unknown[];
}

interface OpenCall {
  readonly index: number;
  readonly id: string;
  callId: string;
  name: string;
  arguments: string;
}

export interface ResponsesStreamOptions {
  readonly frame: Frame;
  /** The id that the items' begin with. */
  readonly run: string;
  readonly topLogprobs?: number | undefined;
  /** The response as it has ended, kept if it is to be. */
  readonly complete: (
    result: RunResult,
    output: readonly Item[],
  ) => Promise<Readonly<Record<string, unknown>>>;
}

export class ResponsesStream implements Writer {
  readonly #stream: SseStream;
  readonly #options: ResponsesStreamOptions;
  #sequence = 0;
  readonly #output: Item[] = [];
  #text: OpenText | undefined;
  /** By the call's index. All stay open to the end, as calls side by side may come in turns. */
  readonly #calls = new Map<number, OpenCall>();
  #logprobs: unknown[] = [];

  constructor(stream: SseStream, options: ResponsesStreamOptions) {
    this.#stream = stream;
    this.#options = options;
    void this.#send('response.created', { response: options.frame });
    void this.#send('response.in_progress', { response: options.frame });
  }

  write(part: Part): void | Promise<void> {
    if (part.choice !== 0) return undefined;
    switch (part.type) {
      case 'text-delta':
        return this.#delta('message', part.text);
      case 'reasoning-delta':
        return this.#delta('reasoning', part.text);
      case 'tool-call-delta':
        return this.#call(part);
      case 'logprobs-delta':
        if (this.#options.topLogprobs !== undefined) this.#logprobs.push(...part.content);
        return undefined;
      default:
        return undefined;
    }
  }

  async finish([result]: readonly RunResult[], broken?: ConsortError): Promise<void> {
    if (!result?.answer || broken) return broken && this.fail(broken);
    const isCut = ['length', 'content_filter'].includes(result.answer.finishReason);
    this.#closeAll(isCut ? 'incomplete' : 'completed');
    const response = await this.#options.complete(result, this.#output);
    void this.#send(isCut ? 'response.incomplete' : 'response.completed', { response });
  }

  /** What was said until then stands in the response, unfinished. */
  fail(error: ConsortError): void {
    const { frame } = this.#options;
    if (this.#text) this.#output[this.#text.index] = this.#itemOf(this.#text, 'incomplete');
    for (const call of this.#calls.values()) this.#output[call.index] = callItem(call.id, 'incomplete', call);
    const response = { ...frame, status: 'failed', output: this.#output, store: false, ...failureOf(error) };
    void this.#send('response.failed', { response });
  }

  #send(type: string, fields: object): void | Promise<void> {
    const event = { type, sequence_number: this.#sequence++, ...fields };
    return this.#stream.send(JSON.stringify(event), type);
  }

  #open(prefix: string, item: (id: string) => Item): { index: number; id: string } {
    const index = this.#output.length;
    const id = `${prefix}_${this.#options.run}_${index}`;
    const opened = item(id);
    this.#output.push(opened);
    void this.#send('response.output_item.added', { output_index: index, item: opened });
    return { index, id };
  }

  #itemOf({ kind, id, text, logprobs }: OpenText, status: ItemStatus): Item {
    if (kind === 'message') return messageItem(id, status, [textPart(text, logprobs)]);
    return reasoningItem(id, status, [{ type: 'reasoning_text', text }]);
  }

  #delta(kind: OpenText['kind'], delta: string): void | Promise<void> {
    if (this.#text?.kind !== kind) this.#closeText('completed');
    const open = (this.#text ??= this.#openText(kind));
    open.text += delta;
    const at = { item_id: open.id, output_index: open.index, content_index: 0, delta };
    if (kind === 'reasoning') return this.#send('response.reasoning_text.delta', at);
    const logprobs = cut(this.#logprobs, this.#options.topLogprobs ?? 0);
    this.#logprobs = [];
    open.logprobs.push(...logprobs);
    return this.#send('response.output_text.delta', { ...at, logprobs });
  }

  #openText(kind: OpenText['kind']): OpenText {
    const isMessage = kind === 'message';
    const at = this.#open(isMessage ? 'msg' : 'rs', (id) =>
      isMessage ? messageItem(id, 'in_progress', []) : reasoningItem(id, 'in_progress', []),
    );
    const part = isMessage ? textPart('') : { type: 'reasoning_text', text: '' };
    const place = { item_id: at.id, output_index: at.index, content_index: 0 };
    void this.#send('response.content_part.added', { ...place, part });
    return { kind, ...at, text: '', logprobs: [] };
  }

  #closeText(status: ItemStatus): void {
    const open = this.#text;
    if (!open) return;
    this.#text = undefined;
    const { kind, id, index, text, logprobs } = open;
    const at = { item_id: id, output_index: index, content_index: 0 };
    const isMessage = kind === 'message';
    if (isMessage) void this.#send('response.output_text.done', { ...at, text, logprobs });
    else void this.#send('response.reasoning_text.done', { ...at, text });
    const part = isMessage ? textPart(text, logprobs) : { type: 'reasoning_text', text };
    void this.#send('response.content_part.done', { ...at, part });
    this.#close(index, this.#itemOf(open, status));
  }

  #close(index: number, item: Item): void {
    this.#output[index] = item;
    void this.#send('response.output_item.done', { output_index: index, item });
  }

  #call({ index, id, name, arguments: args }: ToolCallDelta): void | Promise<void> {
    this.#closeText('completed');
    let call = this.#calls.get(index);
    if (!call) {
      const called = { callId: id ?? '', name: name ?? '', arguments: '' };
      call = { ...called, ...this.#open('fc', (itemId) => callItem(itemId, 'in_progress', called)) };
      this.#calls.set(index, call);
    } else {
      call.callId ||= id ?? '';
      call.name += name ?? '';
    }
    if (!args) return undefined;
    call.arguments += args;
    const at = { item_id: call.id, output_index: call.index, delta: args };
    return this.#send('response.function_call_arguments.delta', at);
  }

  #closeAll(status: ItemStatus): void {
    this.#closeText(status);
    for (const call of this.#calls.values()) {
      const { id, index, name, arguments: args } = call;
      const at = { item_id: id, output_index: index, name, arguments: args };
      void this.#send('response.function_call_arguments.done', at);
      this.#close(index, callItem(id, status, call));
    }
    this.#calls.clear();
  }
}
