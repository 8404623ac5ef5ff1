/** Turns a started call into a Reply: parts to iterate, an answer to await, a way to stop. */
import type { Absence, Answer, Call, CallNote, Reply, Send } from '../../contract/call.ts';
import { ConsortError, type ErrorCode } from '../../contract/errors.ts';
import type { Part } from '../../contract/part.ts';

/** Parts that may wait for a slow reader before the source is asked to pause. */
const HIGH_WATER = 64;

/** A single-reader queue of parts. `push` returns a promise once the reader lags. */
class PartQueue implements AsyncIterator<Part, undefined> {
  readonly #parts: Part[] = [];
  #head = 0;
  #ended = false;
  #reader: ((result: IteratorResult<Part, undefined>) => void) | undefined;
  #drained: { promise: Promise<void>; resolve: () => void } | undefined;

  push(part: Part): void | Promise<void> {
    if (this.#ended) return undefined;
    if (this.#reader) {
      const reader = this.#reader;
      this.#reader = undefined;
      reader({ value: part, done: false });
      return undefined;
    }
    this.#parts.push(part);
    if (this.#parts.length - this.#head < HIGH_WATER) return undefined;
    this.#drained ??= Promise.withResolvers<void>();
    return this.#drained.promise;
  }

  end(): void {
    this.#ended = true;
    this.#reader?.({ value: undefined, done: true });
    this.#drained?.resolve();
  }

  next(): Promise<IteratorResult<Part, undefined>> {
    const part = this.#parts[this.#head];
    if (part !== undefined) {
      this.#head++;
      if (this.#head === this.#parts.length) {
        this.#parts.length = 0;
        this.#head = 0;
        this.#drained?.resolve();
        this.#drained = undefined;
      }
      return Promise.resolve({ value: part, done: false });
    }
    if (this.#ended) return Promise.resolve({ value: undefined, done: true });
    return new Promise((resolve) => {
      this.#reader = resolve;
    });
  }

  return(): Promise<IteratorResult<Part, undefined>> {
    this.#ended = true;
    this.#drained?.resolve();
    return Promise.resolve({ value: undefined, done: true });
  }
}

const STATUS: Partial<Record<ErrorCode, Absence['status']>> = {
  deadline: 'timeout',
  upstream_timeout: 'timeout',
  client_gone: 'cancelled',
  call_not_needed: 'cancelled',
  shutting_down: 'cancelled',
  budget_spent: 'refused',
  images_unread: 'refused',
};

/** How an error ends a call, for its record. */
export function absenceOf(thrown: unknown): Absence {
  const error = ConsortError.from(thrown);
  return { absent: true, status: STATUS[error.code] ?? 'failed', error };
}

/** Starts the call. Only the parts of a speaking call are kept for iterating. */
export function startCall(call: Call, send: Send, control: AbortController, stream: boolean): Reply {
  const queue = new PartQueue();
  const note: CallNote = { attempts: 0, reused: false, lostUsage: { inputTokens: 0, outputTokens: 0 } };
  const emit = call.speaks ? (part: Part) => queue.push(part) : () => undefined;
  const exchange = { call, emit, signal: control.signal, stream: stream && call.speaks, note };
  const answer: Promise<Answer | Absence> = send(exchange).then(
    (result) => {
      queue.end();
      return result;
    },
    (error: unknown) => {
      queue.end();
      return absenceOf(error);
    },
  );
  return {
    call,
    answer,
    cancel: () => control.abort(new ConsortError('call_not_needed')),
    [Symbol.asyncIterator]: () => queue,
  };
}
