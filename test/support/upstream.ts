/** A real HTTP server that plays a model's API: it takes any request and sends back scripted bytes at scripted times. */
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

/** Bytes to write, a pause, the connection's end without warning, or silence until the client leaves. */
export type Step = string | Uint8Array | { readonly pauseMs: number } | typeof RESET | typeof HANG;
export const RESET = Symbol('reset');
export const HANG = Symbol('hang');

export interface Script {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly steps: readonly Step[];
}

export interface Received {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  readonly body: Readonly<Record<string, unknown>>;
  /** Milliseconds of the clock at which the client closed the connection, if it did before we had ended. */
  readonly left: Promise<number>;
  readonly response: ServerResponse;
}

export interface MockUpstream {
  /** Up to and with /v1. */
  readonly url: string;
  readonly received: readonly Received[];
  /** The next answers, by request; the last one is for all that follow. */
  play(...scripts: readonly (Script | ((request: Received) => Script))[]): void;
  /** Resolves when this many requests have come. */
  until(count: number): Promise<void>;
  close(): Promise<void>;
}

export const SSE = { 'content-type': 'text/event-stream' };

/** One event; objects as JSON. */
export function event(data: unknown): string {
  return `data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`;
}

const HEAD = { id: 'up-1', object: 'chat.completion.chunk', created: 1, model: 'their-model' };

export function chunk(delta: object, finish: string | null = null, more: object = {}): string {
  return event({ ...HEAD, choices: [{ index: 0, delta, finish_reason: finish }], ...more });
}

export function usageChunk(input: number, output: number): string {
  const usage = { prompt_tokens: input, completion_tokens: output, total_tokens: input + output };
  return event({ ...HEAD, choices: [], usage });
}

export function stream(...steps: readonly Step[]): Script {
  return { headers: SSE, steps };
}

/** A streamed answer of these words. */
export function spoken(...words: readonly string[]): Script {
  return stream(
    chunk({ role: 'assistant', content: '' }),
    ...words.map((content) => chunk({ content })),
    chunk({}, 'stop'),
    usageChunk(7, words.length),
    event('[DONE]'),
  );
}

export function json(body: unknown, status = 200, headers: Readonly<Record<string, string>> = {}): Script {
  return {
    status,
    headers: { 'content-type': 'application/json', ...headers },
    steps: [JSON.stringify(body)],
  };
}

/** A whole answer of this text. */
export function said(content: string, more: object = {}): Script {
  return json({
    id: 'up-1',
    object: 'chat.completion',
    created: 1,
    model: 'their-model',
    choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 7, completion_tokens: 2, total_tokens: 9 },
    ...more,
  });
}

/** What the request asks for: streamed or whole. */
export function either(text: string): (request: Received) => Script {
  return ({ body }) => (body['stream'] === true ? spoken(...text.split(/(?<= )/)) : said(text));
}

/** Obeys whatever form of a label step the request has; `free` is said where there is none. */
export function obeying(
  pick: (labels: readonly string[]) => string,
  free: string,
): (request: Received) => Script {
  const labelsAt = (value: unknown, ...path: readonly string[]): string[] | undefined => {
    let at = value;
    for (const name of path) at = typeof at === 'object' && at !== null ? Reflect.get(at, name) : undefined;
    return Array.isArray(at) ? at.map(String) : undefined;
  };
  return ({ body }) => {
    const plain = labelsAt(body, 'structured_outputs', 'choice') ?? labelsAt(body, 'guided_choice');
    const schema = ['response_format', 'json_schema', 'schema', 'properties', 'label', 'enum'];
    const fielded = labelsAt(body, ...schema);
    if (plain) return said(pick(plain));
    return said(fielded ? JSON.stringify({ label: pick(fielded) }) : free);
  };
}

async function perform(
  response: ServerResponse,
  { status = 200, headers = {}, steps }: Script,
): Promise<void> {
  response.writeHead(status, headers);
  response.flushHeaders();
  for (const step of steps) {
    if (response.destroyed) return;
    if (step === RESET) response.socket?.resetAndDestroy();
    else if (step === HANG) return;
    else if (typeof step === 'string' || step instanceof Uint8Array) {
      if (!response.write(step)) await Promise.race([once(response, 'drain'), once(response, 'close')]);
    } else await sleep(step.pauseMs, undefined, { ref: false });
  }
  response.end();
}

export async function startUpstream(): Promise<MockUpstream> {
  const received: Received[] = [];
  const waiting = new Set<() => void>();
  let scripts: readonly (Script | ((request: Received) => Script))[] = [either('Hello.')];
  const server = createServer((request, response) => {
    const pieces: Buffer[] = [];
    request.on('data', (piece: Buffer) => pieces.push(piece));
    request.on('end', () => {
      const text = Buffer.concat(pieces).toString('utf8');
      const left = Promise.withResolvers<number>();
      response.on('close', () => {
        if (!response.writableFinished) left.resolve(performance.now());
      });
      const entry: Received = {
        path: request.url ?? '',
        headers: request.headers,
        text,
        body: text === '' ? {} : JSON.parse(text),
        left: left.promise,
        response,
      };
      const script = scripts[Math.min(received.length, scripts.length - 1)]!;
      received.push(entry);
      for (const wake of waiting) wake();
      void perform(response, typeof script === 'function' ? script(entry) : script);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (typeof address !== 'object' || !address) throw new TypeError('no port');
  return {
    url: `http://127.0.0.1:${address.port}/v1`,
    received,
    play(...next) {
      received.length = 0;
      scripts = next;
    },
    async until(count) {
      while (received.length < count) {
        await new Promise<void>((resolve) => {
          waiting.add(resolve);
        });
        waiting.clear();
      }
    },
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
