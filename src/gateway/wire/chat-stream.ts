/** Chat Completions, streamed: parts become chunks. A plain model's own bytes pass as they came. */
import type { ErrorBody } from '../../contract/errors.ts';
import type { Outcome } from '../../contract/outcome.ts';
import type { Part } from '../../contract/part.ts';
import { traceBody, usageBody } from './chat-body.ts';
import type { SseStream } from './sse-stream.ts';

export interface ChatStreamOptions {
  readonly id: string;
  readonly model: string;
  /** Unix seconds. */
  readonly created: number;
  readonly includeUsage: boolean;
  readonly trace: boolean;
  /** Whether the upstream's own events are passed on. */
  readonly plain: boolean;
  readonly fingerprint?: string;
}

export class ChatStream {
  readonly #stream: SseStream;
  readonly #options: ChatStreamOptions;
  /** Everything of a chunk before its choices, serialised once. */
  readonly #head: string;
  readonly #tail: string;
  #begun = false;
  #finished = false;

  constructor(stream: SseStream, options: ChatStreamOptions) {
    const { id, model, created, includeUsage, fingerprint } = options;
    this.#stream = stream;
    this.#options = options;
    const head = { id, object: 'chat.completion.chunk', created, model, system_fingerprint: fingerprint };
    this.#head = `${JSON.stringify(head).slice(0, -1)},"choices":[`;
    this.#tail = includeUsage ? '],"usage":null}' : ']}';
  }

  write(part: Part): void | Promise<void> {
    if (this.#options.plain) return this.#pass(part);
    const { choice: index } = part;
    switch (part.type) {
      case 'text-delta':
        return this.#delta(index, `"content":${JSON.stringify(part.text)}`);
      case 'reasoning-delta':
        return this.#delta(index, `"reasoning_content":${JSON.stringify(part.text)}`);
      case 'tool-call-delta': {
        const { id, name, arguments: args } = part;
        const call = {
          index: part.index,
          ...(id && { id, type: 'function' }),
          function: { ...(name && { name }), arguments: args ?? '' },
        };
        return this.#delta(index, `"tool_calls":[${JSON.stringify(call)}]`);
      }
      case 'finish':
        this.#finished = true;
        return this.#choice(`{"index":${index},"delta":{},"logprobs":null,"finish_reason":"${part.reason}"}`);
      case 'step-start':
      case 'step-end':
        return this.#step(part);
      case 'logprobs-delta':
      case 'usage':
      case 'opaque':
      case 'error':
        return undefined;
    }
  }

  /** Usage as asked, the trace, the end mark. The caller ends the stream. */
  finish(outcome: Outcome): void {
    const { trace, includeUsage, plain } = this.#options;
    if (!this.#finished && !plain && outcome.finishReason) {
      void this.#choice(`{"index":0,"delta":{},"logprobs":null,"finish_reason":"${outcome.finishReason}"}`);
    }
    if (trace) void this.#stream.send(this.#bare({ consort: { trace: traceBody(outcome) } }));
    if (includeUsage && !plain) void this.#stream.send(this.#bare({ usage: usageBody(outcome.usage) }));
    void this.#stream.send('[DONE]');
  }

  fail(error: ErrorBody): void {
    void this.#stream.send(JSON.stringify(error));
    void this.#stream.send('[DONE]');
  }

  /** `raw` holds the event once; the usage event is the client's only if it asked. */
  #pass(part: Part): void | Promise<void> {
    if (part.type === 'step-start' || part.type === 'step-end') return this.#step(part);
    if (part.raw === undefined) return undefined;
    if (this.#options.includeUsage || !part.raw.includes('"usage"')) return this.#stream.send(part.raw);
    if (part.type === 'usage' && /"choices":\s*\[\s*\]/.test(part.raw)) return undefined;
    // We asked the upstream for the usage, so a `null` in each chunk is our doing and is taken out again.
    return this.#stream.send(part.raw.replace(/,\s*"usage":\s*null/, ''));
  }

  #step(part: Part & { type: 'step-start' | 'step-end' }): void | Promise<void> {
    if (!this.#options.trace) return undefined;
    const { slot, type, member } = part;
    const step =
      type === 'step-start'
        ? { type, slot, member, purpose: part.purpose }
        : {
            type,
            slot,
            member,
            status: part.status,
            duration_ms: Math.round(part.durationMs),
            usage: usageBody(part.usage),
            ...(part.text !== undefined && { text: part.text }),
          };
    return this.#stream.send(this.#bare({ consort: { step } }));
  }

  #delta(index: number, field: string): void | Promise<void> {
    const role = this.#begun ? '' : '"role":"assistant",';
    this.#begun = true;
    return this.#choice(`{"index":${index},"delta":{${role}${field}},"logprobs":null,"finish_reason":null}`);
  }

  #choice(choice: string): void | Promise<void> {
    return this.#stream.send(this.#head + choice + this.#tail);
  }

  /** A chunk without choices: official clients skip over it. */
  #bare(fields: Readonly<Record<string, unknown>>): string {
    return `${this.#head}],${JSON.stringify(fields).slice(1)}`;
  }
}
