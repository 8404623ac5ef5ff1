/**
 * openai-compatible: any server that speaks Chat Completions (OpenAI, vLLM, SGLang, Ollama, llama.cpp …).
 * Undici's dispatch with a handler of our own: no fetch and no web streams, they cost several times as much.
 */
import { Pool, type Dispatcher } from 'undici';
import type { Answer, Call, Exchange } from '../../contract/call.ts';
import type { ModelConfig } from '../../contract/config.ts';
import { ConsortError } from '../../contract/errors.ts';
import { ChatReader, errorText } from './chat-reader.ts';
import { retryAfterMs } from './retry-after.ts';
import { SseDecoder } from './sse-decoder.ts';
import type { Dialect, Upstream } from './upstream.ts';

/** Most of a failed response's body that is read for its message. */
const MAX_ERROR_BYTES = 64 * 1024;
/** Largest whole response. */
const MAX_BODY_BYTES = 32 * 1024 * 1024;

/**
 * Asks vLLM for token ids and log-probs. It would take sampling defaults from the model's generation_config.json,
 * and a trainer knows no distribution but the model's own, so its further knobs are set to do nothing.
 */
const NEUTRAL = { top_k: -1, min_p: 0, repetition_penalty: 1 };

function wantedFields({ tokenIds, logprobs }: NonNullable<Call['wants']>): object {
  return { ...NEUTRAL, ...(tokenIds && { return_token_ids: true }), ...(logprobs && { logprobs: true }) };
}

function bodyOf(call: Call, stream: boolean): string {
  return JSON.stringify({
    ...call.extra,
    ...call.sampling,
    ...(call.wants && wantedFields(call.wants)),
    model: call.member.model,
    messages: call.messages,
    ...(call.tools && { tools: call.tools }),
    ...(call.responseFormat !== undefined && { response_format: call.responseFormat }),
    stream,
    stream_options: stream ? { include_usage: true } : undefined,
  });
}

/** One response as undici delivers it. Settles once; whoever settles it first wins. */
class Response implements Dispatcher.DispatchHandler {
  readonly done = Promise.withResolvers<Answer>();
  readonly #model: ModelConfig;
  readonly #exchange: Exchange;
  readonly #reader: ChatReader;
  #controller: Dispatcher.DispatchController | undefined;
  #idle: NodeJS.Timeout;
  #heard = false;
  #status = 0;
  #sse: SseDecoder | undefined;
  #retryAfterMs: number | undefined;
  readonly #chunks: Buffer[] = [];
  #bytes = 0;
  #waits: Promise<void>[] = [];

  constructor(model: ModelConfig, exchange: Exchange) {
    this.#model = model;
    this.#exchange = exchange;
    this.#reader = new ChatReader(model.id, exchange.call.slot, (part) => {
      const wait = exchange.emit(part);
      if (wait) this.#waits.push(wait);
      this.#alive();
    });
    const first = exchange.stream ? model.timeouts.firstPartMs : model.timeouts.totalMs;
    this.#idle = setTimeout(() => this.#silent(first, 'first part'), first);
  }

  /** Ends the call from outside. */
  abort(reason: Error): void {
    this.#controller?.abort(reason);
    this.#fail(reason);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#exchange.signal.aborted) controller.abort(this.#exchange.signal.reason);
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    statusCode: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    this.#status = statusCode;
    const type = String(headers['content-type'] ?? '');
    if (statusCode === 200 && type.startsWith('text/event-stream')) {
      this.#sse = new SseDecoder((data) => this.#reader.event(data));
    }
    this.#retryAfterMs = retryAfterMs(headers['retry-after'], Date.now());
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    try {
      if (this.#sse) this.#sse.push(chunk);
      else this.#collect(chunk);
    } catch (error) {
      this.abort(this.#refused(error));
      return;
    }
    if (this.#waits.length === 0) return;
    const waits = Promise.all(this.#waits);
    this.#waits = [];
    controller.pause();
    clearTimeout(this.#idle);
    void waits.then(() => {
      this.#alive();
      controller.resume();
    });
  }

  onResponseEnd(): void {
    try {
      if (this.#status !== 200) throw this.#statusError();
      if (!this.#sse) this.#reader.event(Buffer.concat(this.#chunks).toString('utf8'));
      const answer = this.#reader.answer();
      clearTimeout(this.#idle);
      this.done.resolve(answer);
    } catch (error) {
      this.#fail(this.#refused(error));
    }
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    const { signal } = this.#exchange;
    if (signal.aborted) this.#fail(signal.reason);
    else if (ConsortError.is(error)) this.#fail(error);
    else if (this.#heard)
      this.#fail(new ConsortError('upstream_truncated', [this.#model.id], { cause: error }));
    else
      this.#fail(
        new ConsortError('upstream_unreachable', [this.#model.id, reasonOf(error)], { cause: error }),
      );
  }

  #collect(chunk: Buffer): void {
    this.#bytes += chunk.length;
    const limit = this.#status === 200 ? MAX_BODY_BYTES : MAX_ERROR_BYTES;
    if (this.#bytes <= limit) this.#chunks.push(chunk);
    else if (this.#status === 200) throw new RangeError(`a response of more than ${limit} bytes`);
  }

  #statusError(): ConsortError {
    const text = Buffer.concat(this.#chunks).toString('utf8');
    let message = text.slice(0, 500);
    try {
      const body: unknown = JSON.parse(text);
      if (typeof body === 'object' && body !== null && 'error' in body) message = errorText(body.error);
    } catch {
      // Not JSON: the text itself is the message.
    }
    const { apiKey, id } = this.#model;
    if (apiKey) message = message.replaceAll(apiKey, '[redacted]');
    return statusError(id, this.#status, message, this.#retryAfterMs);
  }

  #refused(error: unknown): Error {
    if (ConsortError.is(error)) return error;
    return new ConsortError('upstream_malformed', [this.#model.id, reasonOf(error)], { cause: error });
  }

  #alive(): void {
    if (!this.#exchange.stream) return;
    if (this.#heard) {
      this.#idle.refresh();
      return;
    }
    this.#heard = true;
    clearTimeout(this.#idle);
    const { partMs } = this.#model.timeouts;
    this.#idle = setTimeout(() => this.#silent(partMs, 'between parts'), partMs);
  }

  #silent(ms: number, phase: string): void {
    this.abort(new ConsortError('upstream_timeout', [this.#model.id, ms, phase]));
  }

  #fail(error: unknown): void {
    clearTimeout(this.#idle);
    const { lostUsage } = this.#exchange.note;
    lostUsage.inputTokens += this.#reader.usage.inputTokens;
    lostUsage.outputTokens += this.#reader.usage.outputTokens;
    this.done.reject(error);
  }
}

/**
 * What an upstream's status means for us: 408, 409, 425, 429 and 5xx may pass; a 4xx that blames the request keeps
 * its status; one that blames our key or the address is ours to answer for.
 */
export function statusError(
  alias: string,
  status: number,
  message: string,
  waitMs: number | undefined,
): ConsortError {
  const retryable = status >= 500 || [408, 409, 425, 429].includes(status);
  const blamesRequest =
    status >= 400 && status < 500 && ![401, 402, 403, 407, 408, 409, 425].includes(status);
  return new ConsortError('upstream_status', [alias, status, message], {
    status: blamesRequest ? status : 502,
    retryable,
    ...(waitMs !== undefined && { retryAfterMs: waitMs }),
  });
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
    keepAliveTimeout: 4_000,
  });
  const path = `${url.pathname.replace(/\/$/, '')}/chat/completions`;
  const headers = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    ...(model.apiKey && { authorization: `Bearer ${model.apiKey}` }),
  };
  return {
    async send(exchange) {
      const response = new Response(model, exchange);
      const leave = () => response.abort(exchange.signal.reason);
      exchange.signal.addEventListener('abort', leave, { once: true });
      try {
        const body = bodyOf(exchange.call, exchange.stream);
        pool.dispatch({ path, method: 'POST', headers, body }, response);
        return await response.done.promise;
      } finally {
        exchange.signal.removeEventListener('abort', leave);
      }
    },
    close: () => pool.destroy(),
  };
}

export const openaiCompatible: Dialect = { provider: 'openai-compatible', simulated: false, open };
