/**
 * The yardstick, a process of its own: the least that a proxy in Node can do with Fastify and undici's dispatch.
 * The body is parsed and serialised again, the answer's bytes pass. No key, no schema, no record, no metric.
 *
 * usage: node bare-proxy.ts UPSTREAM; prints its URL.
 */
import type { ServerResponse } from 'node:http';
import { fastify } from 'fastify';
import { Pool, type Dispatcher } from 'undici';
import { announce } from './announce.ts';

const pool = new Pool(process.argv[2]!, { connections: 256, headersTimeout: 0, bodyTimeout: 0 });
const HEADERS = { 'content-type': 'application/json' };

class PassThrough implements Dispatcher.DispatchHandler {
  readonly #response: ServerResponse;
  constructor(response: ServerResponse) {
    this.#response = response;
  }
  onRequestStart(): void {}
  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    const { 'content-type': type, 'content-length': length } = headers;
    if (type !== undefined) this.#response.setHeader('content-type', type);
    if (length !== undefined) this.#response.setHeader('content-length', length);
    this.#response.writeHead(status);
  }
  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#response.write(chunk)) return;
    controller.pause();
    this.#response.once('drain', () => controller.resume());
  }
  onResponseEnd(): void {
    this.#response.end();
  }
  onResponseError(): void {
    this.#response.destroy();
  }
}

const app = fastify();
app.post('/v1/chat/completions', (request, reply) => {
  reply.hijack();
  const body = JSON.stringify(request.body);
  pool.dispatch(
    { path: '/v1/chat/completions', method: 'POST', headers: HEADERS, body },
    new PassThrough(reply.raw),
  );
});
await app.listen({ host: '127.0.0.1', port: 0 });
announce(app.server);
// A profile is written at an orderly exit only.
process.once('SIGTERM', () => process.exit());
