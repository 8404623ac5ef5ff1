/** One replica's HTTP API: bounded requests, and the words for what goes wrong. */
import type Type from 'typebox';
import type { Static } from 'typebox';
import Value from 'typebox/value';
import { Agent, request, type Dispatcher } from 'undici';
import { ConsortError } from '../../contract/errors.ts';

const MAX_BODY_BYTES = 16 * 1024 * 1024;
/** Characters of a replica's message that are passed on. */
const LONGEST_MESSAGE = 500;

export interface ReplicaOptions {
  /** Base URL up to and with /v1. */
  readonly url: string;
  readonly apiKey: string | undefined;
  readonly connectMs: number;
}

export interface ReplicaResponse {
  readonly status: number;
  readonly body: string;
}

export class Replica {
  /** Address without credentials. */
  readonly name: string;
  readonly #url: string;
  readonly #apiKey: string | undefined;
  readonly #agent: Agent;

  constructor({ url, apiKey, connectMs }: ReplicaOptions) {
    const { origin, pathname } = new URL(url);
    this.name = origin;
    this.#url = `${origin}${pathname.replace(/\/$/, '')}`;
    this.#apiKey = apiKey;
    // The signal of each request is its only clock: undici's own timers are longer than any of them.
    this.#agent = new Agent({ connectTimeout: connectMs, connections: 8, pipelining: 1 });
  }

  /**
   * Sends one request and reads its whole answer, whatever the status.
   *
   * @throws `serving_unreachable`, `serving_malformed` when the body is too large
   */
  async ask(
    method: 'GET' | 'POST',
    path: string,
    timeoutMs: number,
    body?: object,
  ): Promise<ReplicaResponse> {
    const headers = {
      ...(body && { 'content-type': 'application/json' }),
      ...(this.#apiKey && { authorization: `Bearer ${this.#apiKey}` }),
    };
    const signal = AbortSignal.timeout(timeoutMs);
    try {
      const response = await request(`${this.#url}${path}`, {
        method,
        headers,
        body: body ? JSON.stringify(body) : null,
        dispatcher: this.#agent,
        headersTimeout: 0,
        bodyTimeout: 0,
        signal,
      });
      return { status: response.statusCode, body: await this.#read(response, path) };
    } catch (error) {
      if (ConsortError.is(error)) throw error;
      const reason = signal.aborted ? `no answer within ${timeoutMs} ms` : reasonOf(error);
      throw new ConsortError('serving_unreachable', [this.name, reason], { cause: error });
    }
  }

  /** The body of an answer as what it must be. @throws `serving_status`, `serving_malformed` */
  decode<S extends Type.TSchema>(path: string, { status, body }: ReplicaResponse, schema: S): Static<S> {
    if (status !== 200) throw new ConsortError('serving_status', [this.name, status, path, messageOf(body)]);
    const value = parse(body);
    if (Value.Check(schema, value)) return value;
    const [error] = Value.Errors(schema, value);
    const wrong = `${error?.instancePath || 'the body'} ${error?.message ?? 'is not valid'}`;
    throw new ConsortError('serving_malformed', [this.name, path, wrong]);
  }

  close(): Promise<void> {
    return this.#agent.destroy();
  }

  async #read({ body }: Dispatcher.ResponseData, path: string): Promise<string> {
    const chunks: Buffer[] = [];
    let bytes = 0;
    for await (const chunk of body as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      if (bytes > MAX_BODY_BYTES) {
        throw new ConsortError('serving_malformed', [this.name, path, `more than ${MAX_BODY_BYTES} bytes`]);
      }
      chunks.push(chunk);
    }
    return Buffer.concat(chunks).toString('utf8');
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The message of an error: `{error: {message}}`, before 2025 `{message}`, of the web framework `{detail}`. */
export function messageOf(body: string): string {
  const value = parse(body);
  const inner = fieldOf(value, 'error') ?? value;
  const message = fieldOf(inner, 'message') ?? fieldOf(inner, 'detail') ?? inner ?? body;
  return (typeof message === 'string' ? message : JSON.stringify(message)).slice(0, LONGEST_MESSAGE);
}

function fieldOf(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null) return undefined;
  return Object.entries(value).find(([key]) => key === name)?.[1];
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return 'code' in error && typeof error.code === 'string' ? error.code : error.message;
}
