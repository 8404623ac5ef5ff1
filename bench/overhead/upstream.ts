/**
 * The mock upstream, a process of its own: answers any chat completion whole or streamed, after a delay.
 *
 * usage: node upstream.ts [--delay MS] [--chunk-delay MS]; prints its URL.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { announce } from './announce.ts';
import { EVENTS, WHOLE } from './traffic.ts';

const { values } = parseArgs({
  options: {
    delay: { type: 'string', default: '0' },
    'chunk-delay': { type: 'string', default: '5' },
  },
});
const delayMs = Number(values.delay);
const chunkDelayMs = Number(values['chunk-delay']);
const whole = Buffer.from(WHOLE);
const STREAM = Buffer.from('"stream":true');

async function streamed(response: ServerResponse): Promise<void> {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  for (const event of EVENTS) {
    if (response.destroyed) return;
    response.write(event);
    if (chunkDelayMs > 0) await sleep(chunkDelayMs);
  }
  response.end('data: [DONE]\n\n');
}

function answer(response: ServerResponse, body: Buffer): void {
  if (body.includes(STREAM)) return void streamed(response);
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': whole.length });
  response.end(whole);
}

const server = createServer((request: IncomingMessage, response: ServerResponse) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    const body = Buffer.concat(chunks);
    if (delayMs > 0) setTimeout(() => answer(response, body), delayMs);
    else answer(response, body);
  });
});
server.keepAliveTimeout = 120_000;
server.listen(0, '127.0.0.1', 1024, () => announce(server));
