/** Chat Completions, streamed: parts become chunks. A plain model's own bytes pass as they came. */
import type { RunResult } from '../../contract/capabilities.ts';
import type { ConsortError } from '../../contract/errors.ts';
import type { Part, StepEnd, StepStart } from '../../contract/part.ts';
import { logprobsBody } from './logprobs-body.ts';
import { passedEvent } from './passed-event.ts';
import type { SseStream } from './sse-stream.ts';
import { stepBody, traceFields } from './trace-body.ts';
import { totalUsage, usageBody } from './usage-body.ts';
import type { About, Writer } from './wire.ts';

export interface ChatStreamOptions extends About {
  readonly includeUsage: boolean;
}

/** What has been said of one choice. */
interface Progress {
  hasRole: boolean;
  isFinished: boolean;
  /** Log-probabilities of the words that come next. */
  logprobs: readonly unknown[] | undefined;
}

export class ChatStream implements Writer {
  readonly #stream: SseStream;
  readonly #options: ChatStreamOptions;
  /** Everything of a chunk before its choices, serialised once. */
  readonly #head: string;
  readonly #tail: string;
  readonly #choices = new Map<number, Progress>();

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
        return this.#finish(index, part.reason);
      case 'logprobs-delta':
        return this.#logprobs(index, part.content);
      case 'step-start':
      case 'step-end':
        return this.#step(part);
      case 'usage':
      case 'opaque':
      case 'error':
        return undefined;
    }
  }

  /** The trace, usage as asked, the end mark. */
  finish(results: readonly RunResult[], broken?: ConsortError): void {
    const { trace, includeUsage, plain } = this.#options;
    const outcomes = results.map(({ outcome }) => outcome);
    for (const [index, { finishReason }] of outcomes.entries()) {
      if (!plain && finishReason && !this.#progress(index).isFinished) void this.#finish(index, finishReason);
    }
    if (trace) void this.#stream.send(this.#bare({ consort: traceFields(outcomes) }));
    if (includeUsage && !plain)
      void this.#stream.send(this.#bare({ usage: usageBody(totalUsage(outcomes)) }));
    if (broken) return this.fail(broken);
    void this.#stream.send('[DONE]');
  }

  fail(error: ConsortError): void {
    void this.#stream.send(JSON.stringify(error.toBody()));
    void this.#stream.send('[DONE]');
  }

  #pass(part: Part): void | Promise<void> {
    if (part.type === 'step-start' || part.type === 'step-end') return this.#step(part);
    const event = passedEvent(part, this.#options.includeUsage);
    return event === undefined ? undefined : this.#stream.send(event);
  }

  #step(part: StepStart | StepEnd): void | Promise<void> {
    if (!this.#options.trace) return undefined;
    return this.#stream.send(this.#bare({ consort: { step: stepBody(part) } }));
  }

  #progress(index: number): Progress {
    let progress = this.#choices.get(index);
    if (!progress) {
      this.#choices.set(index, (progress = { hasRole: false, isFinished: false, logprobs: undefined }));
    }
    return progress;
  }

  #delta(index: number, field: string): void | Promise<void> {
    const progress = this.#progress(index);
    // The official client counts log-probabilities twice that come with the first chunk, so they come with the second.
    if (!progress.hasRole && progress.logprobs) this.#open(index);
    const role = progress.hasRole ? '' : '"role":"assistant",';
    progress.hasRole = true;
    return this.#choice(index, `{${role}${field}}`, 'null');
  }

  /** Keeps them for the words that they belong to. */
  #logprobs(index: number, content: readonly unknown[]): void {
    if (this.#options.topLogprobs === undefined) return;
    const progress = this.#progress(index);
    progress.logprobs = [...(progress.logprobs ?? []), ...content];
  }

  #open(index: number): void {
    this.#progress(index).hasRole = true;
    const choice = `{"index":${index},"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}`;
    void this.#stream.send(this.#head + choice + this.#tail);
  }

  #finish(index: number, reason: string): void | Promise<void> {
    this.#progress(index).isFinished = true;
    return this.#choice(index, '{}', `"${reason}"`);
  }

  #choice(index: number, delta: string, finish: string): void | Promise<void> {
    const progress = this.#progress(index);
    const logprobs = JSON.stringify(logprobsBody(progress.logprobs, this.#options.topLogprobs));
    progress.logprobs = undefined;
    const choice = `{"index":${index},"delta":${delta},"logprobs":${logprobs},"finish_reason":${finish}}`;
    return this.#stream.send(this.#head + choice + this.#tail);
  }

  /** A chunk without choices: official clients skip over it. */
  #bare(fields: Readonly<Record<string, unknown>>): string {
    return `${this.#head}],${JSON.stringify(fields).slice(1)}`;
  }
}
