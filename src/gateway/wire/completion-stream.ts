/** Legacy completions, streamed: parts become chunks. A plain model's own bytes pass as they came. */
import type { RunResult } from '../../contract/capabilities.ts';
import type { ConsortError } from '../../contract/errors.ts';
import type { Part } from '../../contract/part.ts';
import { legacyLogprobs, type CompletionOptions } from './completion-body.ts';
import { passedEvent } from './passed-event.ts';
import type { SseStream } from './sse-stream.ts';
import { stepBody, traceFields } from './trace-body.ts';
import { totalUsage, usageBody } from './usage-body.ts';
import type { Writer } from './wire.ts';

/** What has been said of one choice. */
interface Progress {
  isFinished: boolean;
  hasEcho: boolean;
  /** Log-probabilities of the words that come next, and where these begin. */
  logprobs: unknown[] | undefined;
  offset: number;
}

export class CompletionStream implements Writer {
  readonly #stream: SseStream;
  readonly #options: CompletionOptions;
  readonly #head: object;
  readonly #choices = new Map<number, Progress>();

  constructor(stream: SseStream, options: CompletionOptions) {
    const { id, created, model, fingerprint } = options;
    this.#stream = stream;
    this.#options = options;
    this.#head = { id, object: 'text_completion', created, model, system_fingerprint: fingerprint };
  }

  write(part: Part): void | Promise<void> {
    const { plain, includeUsage, trace, topLogprobs } = this.#options;
    if (part.type === 'step-start' || part.type === 'step-end') {
      return trace ? this.#send([], { consort: { step: stepBody(part) } }) : undefined;
    }
    if (plain) {
      const event = passedEvent(part, includeUsage);
      return event === undefined ? undefined : this.#stream.send(event);
    }
    const progress = this.#progress(part.choice);
    switch (part.type) {
      case 'text-delta':
        return this.#text(part.choice, part.text);
      case 'logprobs-delta':
        if (topLogprobs !== undefined) (progress.logprobs ??= []).push(...part.content);
        return undefined;
      case 'finish':
        return this.#finish(part.choice, part.reason);
      default:
        return undefined;
    }
  }

  finish(results: readonly RunResult[], broken?: ConsortError): void {
    const { plain, includeUsage, trace } = this.#options;
    const outcomes = results.map(({ outcome }) => outcome);
    for (const [index, { finishReason }] of outcomes.entries()) {
      if (!plain && finishReason && !this.#progress(index).isFinished) void this.#finish(index, finishReason);
    }
    if (trace) void this.#send([], { consort: traceFields(outcomes) });
    if (includeUsage && !plain) void this.#send([], { usage: usageBody(totalUsage(outcomes)) });
    if (broken) return this.fail(broken);
    void this.#stream.send('[DONE]');
  }

  fail(error: ConsortError): void {
    void this.#stream.send(JSON.stringify(error.toBody()));
    void this.#stream.send('[DONE]');
  }

  #progress(index: number): Progress {
    let progress = this.#choices.get(index);
    if (!progress) {
      progress = { isFinished: false, hasEcho: false, logprobs: undefined, offset: 0 };
      this.#choices.set(index, progress);
    }
    return progress;
  }

  #text(index: number, text: string): void | Promise<void> {
    const progress = this.#progress(index);
    const { echo, topLogprobs } = this.#options;
    const logprobs = legacyLogprobs(progress.logprobs, topLogprobs, progress.offset);
    progress.logprobs = undefined;
    progress.offset += text.length;
    const said = progress.hasEcho ? text : echo + text;
    progress.hasEcho = true;
    return this.#send([{ text: said, index, logprobs, finish_reason: null }]);
  }

  #finish(index: number, reason: string): void | Promise<void> {
    const progress = this.#progress(index);
    progress.isFinished = true;
    const logprobs = legacyLogprobs(progress.logprobs, this.#options.topLogprobs, progress.offset);
    progress.logprobs = undefined;
    return this.#send([{ text: '', index, logprobs, finish_reason: reason }]);
  }

  #send(choices: readonly object[], more?: object): void | Promise<void> {
    const usage = this.#options.includeUsage && { usage: null };
    return this.#stream.send(JSON.stringify({ ...this.#head, choices, ...usage, ...more }));
  }
}
