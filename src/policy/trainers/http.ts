/**
 * One trainer's HTTP: bounded requests over undici, the key in its header, errors as the catalogue names them.
 * A request is sent again only where the caller says that this is safe.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'undici';
import { ConsortError } from '../../contract/errors.ts';
import { ErrorDetail, parseJson, Reader } from './wire.ts';

export interface Timeouts {
  /** For a connection, and for the reply to a short request. */
  readonly requestMs: number;
  /** How long one poll may hold the line; undici's own limit (300 s) equals SkyRL's, so it must be below. */
  readonly pollMs: number;
  /** How long one operation may take in all, from its acknowledgement to its result. */
  readonly resultMs: number;
  /** How long an operation is tried again while the server cannot be reached. */
  readonly submitMs: number;
  /** First pause before a retry; it doubles up to thirty seconds. */
  readonly pauseMs: number;
}

export const TIMEOUTS: Timeouts = {
  requestMs: 60_000,
  pollMs: 45_000,
  resultMs: 900_000,
  submitMs: 300_000,
  pauseMs: 500,
};

const MAX_PAUSE_MS = 30_000;
/** Largest reply that is read: a pass returns two floats a token, in text. */
const MAX_REPLY_BYTES = 256 * 1024 * 1024;
const MAX_MESSAGE = 500;

export interface HttpOptions {
  /** Without the protocol's own prefix: `http://trainer:8000`. */
  readonly baseUrl: string;
  readonly apiKey?: string;
  readonly timeouts: Timeouts;
  /** Ends whatever waits: its request may or may not have been carried out, as after a crash. */
  readonly signal?: AbortSignal;
}

export interface Reply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: Buffer;
  readonly json: () => unknown;
}

export interface Send {
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** Below `/api/v1/`. */
  readonly path: string;
  readonly body?: Buffer;
  readonly contentType?: string;
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

const detailReader = new Reader(ErrorDetail);

export class TrainerHttp {
  readonly timeouts: Timeouts;
  readonly origin: string;
  /** Ends whatever waits for the server. */
  readonly signal: AbortSignal | undefined;
  readonly #pool: Pool;
  readonly #prefix: string;
  readonly #headers: Readonly<Record<string, string>>;

  constructor({ baseUrl, apiKey, timeouts, signal }: HttpOptions) {
    const url = new URL(baseUrl);
    this.timeouts = timeouts;
    this.signal = signal;
    this.origin = url.origin;
    this.#prefix = `${url.pathname.replace(/\/+$/, '')}/api/v1/`;
    // hatchery reads the bearer, the others X-API-Key.
    this.#headers = apiKey === undefined ? {} : { 'x-api-key': apiKey, authorization: `Bearer ${apiKey}` };
    this.#pool = new Pool(url.origin, { connections: 8, connect: { timeout: timeouts.requestMs } });
  }

  /** One exchange, whatever its status. @throws trainer_unreachable, trainer_timeout */
  async exchange({ method, path, body, contentType, timeoutMs, signal }: Send): Promise<Reply> {
    const limit = timeoutMs ?? this.timeouts.requestMs;
    const timer = AbortSignal.timeout(limit);
    const stop = this.#stopOf(signal);
    try {
      const reply = await this.#pool.request({
        method,
        path: this.#prefix + path,
        headers: { ...this.#headers, ...(body && { 'content-type': contentType ?? 'application/json' }) },
        body: body ?? null,
        headersTimeout: 0,
        bodyTimeout: 0,
        signal: AbortSignal.any([timer, ...stop]),
      });
      const bytes = await readCapped(reply.body, MAX_REPLY_BYTES, path);
      const json = () => parseJson(bytes.toString('utf8'), path);
      return { status: reply.statusCode, headers: reply.headers, body: bytes, json };
    } catch (error) {
      if (ConsortError.is(error)) throw error;
      if (stop.some(({ aborted }) => aborted)) throw new ConsortError('shutting_down', [], { cause: error });
      if (timer.aborted) throw new ConsortError('trainer_timeout', [path, limit], { cause: error });
      throw new ConsortError('trainer_unreachable', [reasonOf(error)], { cause: error });
    }
  }

  /** A short request that reads or may be repeated; tried again while the server is away. Gives the JSON. */
  async ask(path: string, body?: object, signal?: AbortSignal): Promise<unknown> {
    const send: Send = {
      method: body ? 'POST' : 'GET',
      path,
      ...(body && { body: Buffer.from(JSON.stringify(body)) }),
      ...(signal && { signal }),
    };
    const reply = await this.persist(send);
    if (reply.status !== 200) throw statusError(reply, path);
    return reply.json();
  }

  /** Sends until there is an answer that repeating would not change, for at most `submitMs`. */
  async persist(send: Send): Promise<Reply> {
    const end = Date.now() + this.timeouts.submitMs;
    for (let attempt = 0; ; attempt++) {
      const pause = pauseAfter(this.timeouts.pauseMs, attempt);
      const isLast = Date.now() + pause >= end;
      try {
        const reply = await this.exchange(send);
        if (isLast || !isTransient(reply.status)) return reply;
      } catch (error) {
        if (isLast || !isAway(error)) throw error;
      }
      await this.pause(pause, send.signal);
    }
  }

  /** @throws shutting_down when a signal ends it */
  async pause(ms: number, signal?: AbortSignal): Promise<void> {
    try {
      await sleep(ms, undefined, { signal: AbortSignal.any(this.#stopOf(signal)) });
    } catch (error) {
      throw new ConsortError('shutting_down', [], { cause: error });
    }
  }

  #stopOf(signal: AbortSignal | undefined): AbortSignal[] {
    return [this.signal, signal].filter((one) => one !== undefined);
  }

  async close(): Promise<void> {
    await this.#pool.destroy();
  }
}

/** Whether the server may take the same request later. 409 is not among them: it means a number was reused. */
export const isTransient = (status: number): boolean => status === 408 || status === 429 || status >= 500;

export const isAway = (error: unknown): boolean =>
  ConsortError.is(error) && (error.code === 'trainer_unreachable' || error.code === 'trainer_timeout');

export const pauseAfter = (first: number, attempt: number): number =>
  Math.min(first * 2 ** attempt, MAX_PAUSE_MS);

/** The catalogue's error for a status that is no success. */
export function statusError(reply: Reply, operation: string): ConsortError {
  const message = messageOf(reply);
  if (reply.status === 404) return new ConsortError('trainer_lost', [`${operation}: ${message}`]);
  if (reply.status === 409) return new ConsortError('trainer_conflict', [`${operation}: ${message}`]);
  return new ConsortError('trainer_status', [reply.status, operation, message], {
    retryable: isTransient(reply.status),
  });
}

export function messageOf({ body }: Reply): string {
  const text = body.toString('utf8');
  let value: unknown = text;
  try {
    value = JSON.parse(text);
  } catch {
    return text.slice(0, MAX_MESSAGE);
  }
  if (!detailReader.is(value)) return text.slice(0, MAX_MESSAGE);
  const { detail } = value;
  const message = typeof detail === 'string' ? detail : detail.map(({ msg }) => msg).join('; ');
  return message.slice(0, MAX_MESSAGE);
}

/** The whole of a body that has a size limit. @throws trainer_malformed beyond it */
export async function readCapped(
  body: AsyncIterable<Buffer>,
  limit: number,
  operation: string,
): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > limit) throw new ConsortError('trainer_malformed', [operation, `over ${limit} bytes`]);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { code } = error as NodeJS.ErrnoException;
  return code ?? error.message;
}
