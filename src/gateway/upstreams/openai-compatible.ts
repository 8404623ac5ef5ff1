/**
 * openai-compatible: any server that speaks Chat Completions (OpenAI, vLLM, SGLang, Ollama, llama.cpp …).
 * Undici's dispatch with a handler of our own: no fetch and no web streams, they cost several times as much.
 */
import { Pool, type Dispatcher } from 'undici';
import type { Answer, Call, Exchange } from '../../contract/call.ts';
import type { ModelConfig } from '../../contract/config.ts';
import { ConsortError } from '../../contract/errors.ts';
import type { Part } from '../../contract/part.ts';
import { ChatReader, type ReaderOptions } from './chat-reader.ts';
import { CompletionReader } from './completion-reader.ts';
import { EmbeddingsReader } from './embeddings-reader.ts';
import { OPENAI_PROBES } from './openai-probes.ts';
import { probeWith } from './probe.ts';
import { isCompletion, requestOf } from './request-body.ts';
import { Link, isClosed, type Travelling } from './link.ts';
import { askedWaitMs } from './retry-after.ts';
import { SseDecoder } from './sse-decoder.ts';
import { stepsOf } from './token-steps.ts';
import { bodyText, isOutOfCredit, statusError } from './upstream-error.ts';
import type { Dialect, Upstream } from './upstream.ts';

/** Most of a failed response's body that is read for its message. */
const MAX_ERROR_BYTES = 64 * 1024;
/** Largest whole response: a full batch of large embeddings in base64 is a little over half of it. */
const MAX_BODY_BYTES = 64 * 1024 * 1024;
/** How long a connection may stay open after [DONE]. */
const LINGER_MS = 5_000;

/** What reads the answer of each route. */
type Reader = ChatReader | CompletionReader | EmbeddingsReader;

function readerOf(call: Call, options: ReaderOptions): Reader {
  if (call.route === 'embeddings') return new EmbeddingsReader(options);
  return isCompletion(call) ? new CompletionReader(options) : new ChatReader(options);
}

/** One response as undici delivers it. Settles once; whoever settles it first wins. */
class Response implements Travelling {
  link: Link | undefined;
  #isReused = false;
  readonly #done = Promise.withResolvers<Answer>();
  readonly #model: ModelConfig;
  readonly #exchange: Exchange;
  readonly #reader: Reader;
  #controller: Dispatcher.DispatchController | undefined;
  readonly #total: NodeJS.Timeout;
  #idle: NodeJS.Timeout | undefined;
  #heard = false;
  #settled = false;
  #status = 0;
  #encoding: string | undefined;
  #sse: SseDecoder | undefined;
  #retryAfterMs: number | undefined;
  readonly #chunks: Buffer[] = [];
  #bytes = 0;
  #waits: Promise<void>[] = [];

  constructor(model: ModelConfig, exchange: Exchange) {
    this.#model = model;
    this.#exchange = exchange;
    const { call, stream } = exchange;
    const redact = (text: string) => this.#redact(text);
    const emit = (part: Part) => {
      const wait = exchange.emit(part);
      if (wait) this.#waits.push(wait);
    };
    this.#reader = readerOf(call, { alias: model.id, slot: call.slot, stream, redact, emit });
    const { totalMs, firstPartMs } = model.timeouts;
    this.#total = setTimeout(() => this.#silent(totalMs, 'whole call'), totalMs);
    if (exchange.stream) this.#arm(firstPartMs, 'first part');
  }

  get answer(): Promise<Answer> {
    return this.#done.promise;
  }

  /** Ends the call from outside. */
  abort(reason: Error): void {
    this.#fail(reason);
    this.#controller?.abort(reason);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    this.#isReused = this.link?.begin() ?? false;
    // It waited for a connection until nobody wanted it any more.
    if (this.#settled) controller.abort(new ConsortError('client_gone'));
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    statusCode: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    this.#status = statusCode;
    this.#retryAfterMs = statusCode === 200 ? undefined : askedWaitMs(headers, statusCode, Date.now());
    const encoding = String(headers['content-encoding'] ?? 'identity');
    // We never ask for one, and bytes that cannot be read must not look like an answer.
    if (encoding !== 'identity') this.#encoding = encoding;
    if (statusCode !== 200) return;
    if (this.#encoding !== undefined) {
      this.abort(this.#malformed(`a body in content-encoding ${this.#encoding}`));
    } else if (String(headers['content-type'] ?? '').startsWith('text/event-stream')) {
      this.#sse = new SseDecoder((data) => {
        if (this.#reader.event(data)) this.#alive();
      });
    }
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#settled) return;
    try {
      if (this.#sse) this.#sse.push(chunk);
      else this.#collect(chunk);
      if (this.#reader.done) {
        this.#succeed();
        this.#arm(LINGER_MS, 'after [DONE]');
      }
    } catch (error) {
      this.abort(this.#refused(error));
      return;
    }
    if (this.#waits.length > 0) this.#pause(controller);
  }

  onResponseEnd(): void {
    if (this.#settled) return clearTimeout(this.#idle);
    try {
      if (this.#status !== 200) throw this.#statusError();
      if (!this.#sse) this.#reader.body(Buffer.concat(this.#chunks).toString('utf8'));
      this.#succeed();
    } catch (error) {
      this.#fail(this.#refused(error));
    }
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    clearTimeout(this.#idle);
    const { id } = this.#model;
    if (ConsortError.is(error)) return this.#fail(error);
    const isStale = this.#isReused && this.#status === 0 && isClosed(error);
    const unheard = isStale ? 'upstream_stale' : 'upstream_unreachable';
    this.#fail(
      this.#heard
        ? new ConsortError('upstream_truncated', [id], { cause: error })
        : new ConsortError(unheard, [id, reasonOf(error)], { cause: error }),
    );
  }

  /** Lets a reader that lags catch up: the upstream waits meanwhile, and its silence does not count. */
  #pause(controller: Dispatcher.DispatchController): void {
    const waits = Promise.all(this.#waits);
    this.#waits = [];
    controller.pause();
    if (!this.#settled) clearTimeout(this.#idle);
    void waits.then(() => {
      if (!this.#settled) this.#arm(this.#model.timeouts.partMs, 'between parts');
      controller.resume();
    });
  }

  #collect(chunk: Buffer): void {
    this.#bytes += chunk.length;
    const limit = this.#status === 200 ? MAX_BODY_BYTES : MAX_ERROR_BYTES;
    if (this.#bytes <= limit) this.#chunks.push(chunk);
    else if (this.#status === 200) throw new RangeError(`a response of more than ${limit} bytes`);
  }

  #redact(text: string): string {
    const { apiKey } = this.#model;
    return apiKey ? text.replaceAll(apiKey, '[redacted]') : text;
  }

  #statusError(): ConsortError {
    const body = this.#redact(Buffer.concat(this.#chunks).toString('utf8'));
    const message = this.#encoding === undefined ? bodyText(body) : `a body in ${this.#encoding}`;
    if (isOutOfCredit(this.#status, body)) {
      return new ConsortError('upstream_no_credit', [this.#model.id, message]);
    }
    return statusError(this.#model.id, this.#status, message, this.#retryAfterMs);
  }

  #malformed(what: string, cause?: unknown): ConsortError {
    return new ConsortError('upstream_malformed', [this.#model.id, what], { cause });
  }

  #refused(error: unknown): Error {
    return ConsortError.is(error) ? error : this.#malformed(reasonOf(error), error);
  }

  #alive(): void {
    if (!this.#exchange.stream) return;
    if (this.#heard) this.#idle?.refresh();
    else this.#arm(this.#model.timeouts.partMs, 'between parts');
    this.#heard = true;
  }

  #arm(ms: number, phase: string): void {
    clearTimeout(this.#idle);
    this.#idle = setTimeout(() => this.#silent(ms, phase), ms);
  }

  #silent(ms: number, phase: string): void {
    this.abort(new ConsortError('upstream_timeout', [this.#model.id, ms, phase]));
  }

  /** After [DONE] the answer is complete, whatever the connection does. */
  #succeed(): void {
    const answer = this.#reader.answer();
    const { tokens } = this.#exchange.call;
    const steps = tokens && stepsOf(this.#model.id, answer);
    this.#settle();
    this.#done.resolve(steps ? { ...answer, steps } : answer);
  }

  #fail(error: Error): void {
    if (this.#settled) return;
    this.#settle();
    const { lostUsage } = this.#exchange.note;
    lostUsage.inputTokens += this.#reader.usage.inputTokens;
    lostUsage.outputTokens += this.#reader.usage.outputTokens;
    this.#done.reject(error);
  }

  #settle(): void {
    this.#settled = true;
    clearTimeout(this.#total);
    clearTimeout(this.#idle);
  }
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return 'code' in error && typeof error.code === 'string' ? error.code : error.message;
}

function open(model: ModelConfig): Upstream {
  const url = new URL(model.baseUrl ?? '');
  const pool = new Pool(url.origin, {
    connections: model.connections,
    connectTimeout: model.timeouts.connectMs,
    // Our own timers rule: undici's count heartbeats as life and know nothing of first parts.
    headersTimeout: 0,
    bodyTimeout: 0,
    // Shorter than servers keep theirs (5 s in Node and uvicorn), so that we rarely write to a closed one.
    keepAliveTimeout: 4_000,
    // What a server hints may be more than the network between us keeps, which forgets without a word.
    keepAliveMaxTimeout: 30_000,
    factory: (origin, options) => new Link(origin, options),
  });
  const base = url.pathname.replace(/\/$/, '');
  const headers = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    ...(model.apiKey && { authorization: `Bearer ${model.apiKey}` }),
  };
  return {
    async send(exchange) {
      const { call, signal, stream } = exchange;
      signal.throwIfAborted();
      const { route, body } = requestOf(call, stream);
      const path = `${base}${route}${url.search}`;
      const response = new Response(model, exchange);
      const leave = () => response.abort(ConsortError.from(signal.reason));
      signal.addEventListener('abort', leave, { once: true });
      try {
        pool.dispatch({ path, method: 'POST', headers, body }, response);
        return await response.answer;
      } finally {
        signal.removeEventListener('abort', leave);
      }
    },
    close: () => pool.destroy(),
  };
}

export const openaiCompatible: Dialect = {
  provider: 'openai-compatible',
  simulated: false,
  routes: ['completions', 'embeddings'],
  open,
  probe: (model) => probeWith(OPENAI_PROBES, model),
};
