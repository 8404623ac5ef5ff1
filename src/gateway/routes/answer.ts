/** The way of one request, the same for every wire: decided, run, and written as a stream or as a body. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { RunOptions } from '../../contract/capabilities.ts';
import type { ChatRequest } from '../../contract/chat.ts';
import type { Part } from '../../contract/part.ts';
import { runChoices, type Choices } from '../choices.ts';
import type { GatewayParts } from '../ports.ts';
import type { Caller, Resolved } from '../resolve.ts';
import { SseStream } from '../wire/sse-stream.ts';
import { aboutOf, type About, type Wire, type Writer } from '../wire/wire.ts';

/** How long a plain model's first word is waited for, so that an early error keeps its own status. */
const STATUS_WAIT_MS = 1_000;
/** How long a client may leave a stream unread. */
const STALL_MS = 60_000;

/** A request that has been decided, and the form in which its answer is wanted. */
export interface Wanted {
  readonly resolved: Resolved;
  readonly stream: boolean;
  readonly trace: boolean;
  readonly wireOf: (about: About) => Wire;
}

/** Only a team's turns are kept: a plain model is sent all that it needs, and some protocols begin anew each turn. */
export async function decide(parts: GatewayParts, body: ChatRequest, caller: Caller): Promise<Resolved> {
  const system = parts.catalog().systems.get(body.model);
  if (system?.plain || system?.protocol.runsEachTurn) return parts.resolve(body, caller);
  const recalled = await parts.turns.recall(caller.tenant, body);
  return parts.resolve(body, caller, recalled);
}

export async function answer(
  parts: GatewayParts,
  wanted: Wanted,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { stream } = wanted;
  const leave = parts.admission.enter(wanted.resolved.plans.length);
  const control = new AbortController();
  if (reply.raw.destroyed) control.abort();
  reply.raw.once('close', () => {
    if (!reply.raw.writableFinished) control.abort();
  });
  parts.underWay.add(control);
  parts.metrics.began(stream);
  try {
    if (stream) await streamed(parts, wanted, request, reply, control.signal);
    else await whole(parts, wanted, request, reply, control.signal);
  } finally {
    leave();
    parts.underWay.delete(control);
    parts.metrics.ended(stream);
  }
  return reply;
}

/** Runs the plans, and keeps what a next turn needs before the client can send it. */
async function run(
  { run: runSystem, turns }: GatewayParts,
  { resolved: { plans, task, system, resume } }: Wanted,
  options: RunOptions,
): Promise<Choices> {
  const told = await runChoices(runSystem, plans, task, { ...options, ...(resume && { resume }) });
  if (!system.plain && !system.protocol.runsEachTurn) {
    await Promise.all(told.results.map((result) => turns.keep(task.messages, result)));
  }
  return told;
}

function outcomeHeaders({ plans, system }: Resolved, { id }: FastifyRequest): Record<string, string> {
  const outcomes = plans.map((plan) => plan.id).join(', ');
  return { 'x-consort-outcome': outcomes, 'x-consort-system': system.id, 'x-request-id': id };
}

function wireFor({ clock }: GatewayParts, { resolved, trace, wireOf }: Wanted): Wire {
  const { plans, system, task } = resolved;
  const created = Math.floor(clock.now() / 1000);
  return wireOf(aboutOf(plans[0], system, { created, trace, topLogprobs: task.topLogprobs }));
}

async function whole(
  parts: GatewayParts,
  wanted: Wanted,
  request: FastifyRequest,
  reply: FastifyReply,
  signal: AbortSignal,
): Promise<void> {
  const { resolved } = wanted;
  let raw: string | undefined;
  const emit = (part: Part) => {
    if (part.raw !== undefined) raw = part.raw;
  };
  const wire = wireFor(parts, wanted);
  const { results, error } = await run(parts, wanted, { emit, signal, stream: false, trace: false });
  if (reply.raw.destroyed) return;
  void reply.headers(outcomeHeaders(resolved, request));
  if (error) throw error;
  const text = await wire.body(results, resolved.system.plain ? raw : undefined);
  await reply.type('application/json; charset=utf-8').send(text);
}

/** Opens the stream at once for a team; for a plain model at its first word, or after a second. */
async function streamed(
  parts: GatewayParts,
  wanted: Wanted,
  request: FastifyRequest,
  reply: FastifyReply,
  signal: AbortSignal,
): Promise<void> {
  const { resolved, trace } = wanted;
  const wire = wireFor(parts, wanted);
  let open: { stream: SseStream; writer: Writer } | undefined;
  const begin = () => {
    if (open) return open;
    reply.hijack();
    const heartbeatMs = parts.config.server.heartbeatSeconds * 1000;
    const headers = outcomeHeaders(resolved, request);
    const stream = new SseStream(reply.raw, { headers, heartbeatMs, stallMs: STALL_MS });
    open = { stream, writer: wire.open(stream) };
    return open;
  };
  if (!resolved.system.plain) begin();
  const timer = setTimeout(begin, STATUS_WAIT_MS);
  const emit = (part: Part) => begin().writer.write(part);
  let told: Choices;
  try {
    told = await run(parts, wanted, { emit, signal, stream: true, trace });
  } finally {
    clearTimeout(timer);
  }
  const { results, error, broken } = told;
  if (reply.raw.destroyed) return open?.stream.end();
  if (error && !open) {
    void reply.headers(outcomeHeaders(resolved, request));
    throw error;
  }
  const { stream, writer } = begin();
  if (error) writer.fail(error);
  else await writer.finish(results, broken);
  stream.end();
}
