/** POST /v1/chat/completions: one run, encoded as a stream or as a body. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { RunOptions } from '../../contract/capabilities.ts';
import { ChatRequest } from '../../contract/chat.ts';
import type { Part } from '../../contract/part.ts';
import { runChoices, type Choices } from '../choices.ts';
import type { GatewayParts } from '../ports.ts';
import type { Resolved } from '../resolve.ts';
import { chatBody } from '../wire/chat-body.ts';
import { ChatStream } from '../wire/chat-stream.ts';
import { SseStream } from '../wire/sse-stream.ts';

/** How long a plain model's first word is waited for, so that an early error keeps its own status. */
const STATUS_WAIT_MS = 1_000;
/** How long a client may leave a stream unread. */
const STALL_MS = 60_000;

export function chatCompletions(app: FastifyInstance, parts: GatewayParts): void {
  app.post<{ Body: ChatRequest }>(
    '/v1/chat/completions',
    { schema: { body: ChatRequest } },
    async (request, reply) => {
      const { body } = request;
      const resolved = await resolve(parts, request);
      const stream = body.stream === true;
      const control = new AbortController();
      if (reply.raw.destroyed) control.abort();
      reply.raw.once('close', () => {
        if (!reply.raw.writableFinished) control.abort();
      });
      parts.metrics.began(stream);
      try {
        if (stream) await streamed(parts, resolved, request, reply, control.signal);
        else await whole(parts, resolved, request, reply, control.signal);
      } finally {
        parts.metrics.ended(stream);
      }
      return reply;
    },
  );
}

type ChatCall = FastifyRequest<{ Body: ChatRequest }>;

/** Only a team's turns are kept: a plain model is sent all that it needs, and some protocols begin anew each turn. */
async function resolve({ resolve: decide, turns, catalog }: GatewayParts, { body, caller }: ChatCall) {
  const system = catalog().systems.get(body.model);
  if (system?.plain || system?.protocol.runsEachTurn) return decide(body, caller);
  const recalled = await turns.recall(caller.tenant, body);
  return decide(body, caller, recalled);
}

/** Runs the plans, and keeps what a next turn with results of tools needs before the client can send it. */
async function run(
  { run: runSystem, turns }: GatewayParts,
  { plans, task, system, resume }: Resolved,
  options: RunOptions,
): Promise<Choices> {
  const told = await runChoices(runSystem, plans, task, { ...options, ...(resume && { resume }) });
  if (!system.plain && !system.protocol.runsEachTurn) {
    await Promise.all(told.results.map((result) => turns.keep(task.messages, result)));
  }
  return told;
}

function outcomeHeaders({ plans, system }: Resolved, { id }: ChatCall): Record<string, string> {
  const outcomes = plans.map((plan) => plan.id).join(', ');
  return { 'x-consort-outcome': outcomes, 'x-consort-system': system.id, 'x-request-id': id };
}

/** What every answer to this request says of itself, in whatever form. */
function answerOptions(parts: GatewayParts, { plans, task, system }: Resolved, { body }: ChatCall) {
  return {
    id: `chatcmpl-${plans[0].id}`,
    model: body.model,
    created: Math.floor(parts.clock.now() / 1000),
    trace: body.consort?.trace === true,
    topLogprobs: task.topLogprobs,
    ...(system.simulated && { fingerprint: 'sim-pool/1' }),
  };
}

async function whole(
  parts: GatewayParts,
  resolved: Resolved,
  request: ChatCall,
  reply: FastifyReply,
  signal: AbortSignal,
): Promise<void> {
  let raw: string | undefined;
  const emit = (part: Part) => {
    if (part.raw !== undefined) raw = part.raw;
  };
  const options = answerOptions(parts, resolved, request);
  const { results, error } = await run(parts, resolved, { emit, signal, stream: false, trace: false });
  if (reply.raw.destroyed) return;
  void reply.headers(outcomeHeaders(resolved, request));
  if (error) throw error;
  const text = resolved.system.plain && raw !== undefined ? raw : chatBody(results, options);
  await reply.type('application/json; charset=utf-8').send(text);
}

/** Opens the stream at once for a team; for a plain model at its first word, or after a second. */
async function streamed(
  parts: GatewayParts,
  resolved: Resolved,
  request: ChatCall,
  reply: FastifyReply,
  signal: AbortSignal,
): Promise<void> {
  const { system } = resolved;
  const options = answerOptions(parts, resolved, request);
  let chat: { stream: SseStream; writer: ChatStream } | undefined;
  const begin = () => {
    if (chat) return chat;
    reply.hijack();
    const heartbeatMs = parts.config.server.heartbeatSeconds * 1000;
    const headers = outcomeHeaders(resolved, request);
    const stream = new SseStream(reply.raw, { headers, heartbeatMs, stallMs: STALL_MS });
    const writer = new ChatStream(stream, {
      ...options,
      includeUsage: request.body.stream_options?.include_usage === true,
      // A simulated model has no bytes of its own to pass on.
      plain: system.plain && !system.simulated,
    });
    chat = { stream, writer };
    return chat;
  };
  if (!system.plain) begin();
  const timer = setTimeout(begin, STATUS_WAIT_MS);
  const emit = (part: Part) => begin().writer.write(part);
  let told: Choices;
  try {
    told = await run(parts, resolved, { emit, signal, stream: true, trace: options.trace });
  } finally {
    clearTimeout(timer);
  }
  const { results, error, broken } = told;
  if (reply.raw.destroyed) return chat?.stream.end();
  if (error && !chat) {
    void reply.headers(outcomeHeaders(resolved, request));
    throw error;
  }
  const { stream, writer } = begin();
  const outcomes = results.map(({ outcome }) => outcome);
  if (error) writer.fail(error.toBody());
  else writer.finish(outcomes, broken?.toBody());
  stream.end();
}
