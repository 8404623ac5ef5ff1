/** The routes, over node:http alone. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Adapters } from './adapters.ts';
import { answer, promptOf, type Delta } from './answer.ts';
import { chatRequest, type ChatRequest } from './chat-request.ts';
import { complete, completionRequest } from './completion.ts';
import { RequestError } from './request-error.ts';
import type { TinyModel } from './tiny-model.ts';
import { Wire } from './wire.ts';

type Models = ReadonlyMap<string, TinyModel>;

interface Served {
  models: Models;
  adapters: Adapters;
}

const largestBody = 1024 * 1024;

export function httpServer(served: Served): Server {
  return createServer((request, response) => void respond(served, request, response));
}

async function respond(served: Served, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const gone = new AbortController();
  response.once('close', () => gone.abort());
  try {
    await route(served, request, response, gone.signal);
  } catch (error) {
    if (gone.signal.aborted) return;
    const refusal = error instanceof RequestError ? error : failure(error);
    if (response.headersSent) response.end(`data: ${JSON.stringify(refusal.envelope)}\n\ndata: [DONE]\n\n`);
    else sendJson(response, refusal.status, refusal.envelope);
  }
}

async function route(
  { models, adapters }: Served,
  request: IncomingMessage,
  response: ServerResponse,
  signal: AbortSignal,
): Promise<void> {
  const path = new URL(request.url ?? '/', 'http://localhost').pathname;
  switch (`${request.method} ${path}`) {
    case 'GET /health':
      return sendJson(response, 200, { status: 'ok' });
    case 'GET /v1/models':
      return sendJson(response, 200, { object: 'list', data: [...models.values()].map(card) });
    case 'POST /v1/chat/completions':
      return chat(models, await bodyOf(request), response, signal);
    case 'POST /v1/completions':
      return continueText(models, await bodyOf(request), response, signal);
    case 'POST /v1/load_lora_adapter':
      return sendText(response, await adapters.load(await bodyOf(request)));
    case 'POST /v1/unload_lora_adapter':
      return sendText(response, await adapters.unload(await bodyOf(request)));
    default:
      throw new RequestError(404, 'not_found', `there is no ${request.method} ${path} here`);
  }
}

function card({ id, root, parent, description }: TinyModel): object {
  return { id, object: 'model', created: 0, owned_by: 'tiny-team', root, parent, description };
}

async function chat(
  models: Models,
  body: unknown,
  response: ServerResponse,
  signal: AbortSignal,
): Promise<void> {
  const request = chatRequest(body);
  const model = modelOf(models, request.model);
  await model.during(() => reply(model, request, response, signal));
}

function modelOf(models: Models, id: string): TinyModel {
  const model = models.get(id);
  if (model) return model;
  const message = `there is no model ${id} here; there are ${[...models.keys()].join(', ')}`;
  throw new RequestError(404, 'model_not_found', message, 'model');
}

async function continueText(
  models: Models,
  body: unknown,
  response: ServerResponse,
  signal: AbortSignal,
): Promise<void> {
  const request = completionRequest(body);
  const model = modelOf(models, request.model);
  await model.during(async () => sendJson(response, 200, await complete(model, request, signal)));
}

async function reply(
  model: TinyModel,
  request: ChatRequest,
  response: ServerResponse,
  signal: AbortSignal,
): Promise<void> {
  const prompt = promptOf(model, request);
  const wire = new Wire(model, request, prompt);
  const deltas: Delta[] = [];
  if (!request.stream) {
    await answer(model, prompt, request, signal, (delta) => deltas.push(delta));
    return sendJson(response, 200, wire.whole(deltas));
  }
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
  const send = (event: object): boolean => response.write(`data: ${JSON.stringify(event)}\n\n`);
  for (const event of wire.opening()) send(event);
  await answer(model, prompt, request, signal, (delta) => {
    deltas.push(delta);
    const silent = delta.text === '' && !delta.finish && !request.logprobs && !request.returnTokenIds;
    if (!silent) send(wire.chunk(delta));
  });
  if (request.includeUsage) send(wire.usage(deltas));
  response.end('data: [DONE]\n\n');
}

async function bodyOf(request: IncomingMessage): Promise<unknown> {
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of request as AsyncIterable<Buffer>) {
    size += part.length;
    if (size > largestBody) {
      throw new RequestError(413, 'body_too_large', `the body is larger than ${largestBody} bytes`);
    }
    parts.push(part);
  }
  const text = Buffer.concat(parts).toString();
  try {
    return JSON.parse(text);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new RequestError(400, 'invalid_json', `the body is not JSON: ${reason}`);
  }
}

function failure(error: unknown): RequestError {
  console.error(error);
  return new RequestError(500, 'internal_error', 'the server failed; its log says why');
}

function sendJson(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify(body));
}

function sendText(response: ServerResponse, text: string): void {
  response.writeHead(200, { 'content-type': 'text/plain' });
  response.end(text);
}

/** Listens on this machine only; port 0 takes a free one. */
export async function listen(server: Server, port: number): Promise<string> {
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the server has no port');
  return `http://127.0.0.1:${address.port}`;
}
