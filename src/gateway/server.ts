/** The public server: plugins and routes, in order. */
import type { AddressInfo } from 'node:net';
import {
  fastify,
  LogController,
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
} from 'fastify';
import { ConsortError } from '../contract/errors.ts';
import { admission } from './plugins/admission.ts';
import { auth } from './plugins/auth.ts';
import { errors } from './plugins/errors.ts';
import { json } from './plugins/json.ts';
import { limits } from './plugins/limits.ts';
import { validation } from './plugins/validation.ts';
import type { GatewayParts } from './ports.ts';
import { chatCompletions } from './routes/chat-completions.ts';
import { completions } from './routes/completions.ts';
import { embeddings } from './routes/embeddings.ts';
import { models } from './routes/models.ts';
import { records } from './routes/records.ts';
import { responses } from './routes/responses.ts';
import { releases } from './routes/releases.ts';
import type { UnderWay } from './under-way.ts';

/** What the router cannot read reaches no handler of ours: a path that is not percent-encoded UTF-8. */
function unreadable({ message }: FastifyError, _request: FastifyRequest, reply: FastifyReply): void {
  const error = new ConsortError('invalid_request', ['path', message], { param: 'path' });
  void reply.code(error.status).send(error.toBody());
}

export async function createServer(parts: GatewayParts): Promise<FastifyInstance> {
  const { server, auth: authConfig } = parts.config;
  const app = fastify({
    loggerInstance: parts.logger,
    logController: new LogController({ disableRequestLogging: true }),
    // A logger for each request costs more than the few lines ever written are worth: those name the request.
    childLoggerFactory: (logger) => logger,
    bodyLimit: server.maxBodyBytes,
    genReqId: () => parts.newId(),
    requestIdHeader: 'x-request-id',
    // Requests on kept-alive sockets are served while draining; the readiness probe takes us out of rotation.
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    // Longer than common proxies keep theirs, so that they never reuse a connection we have just closed.
    keepAliveTimeout: 95_000,
    routerOptions: { maxParamLength: 500 },
    frameworkErrors: unreadable,
  });
  await app.register(errors, { metrics: parts.metrics, maxBodyBytes: server.maxBodyBytes });
  await app.register(admission, parts);
  await app.register(json);
  await app.register(validation);
  await app.register(auth, authConfig);
  await app.register(limits, parts);
  chatCompletions(app, parts);
  completions(app, parts);
  embeddings(app, parts);
  responses(app, parts);
  models(app, parts);
  records(app, parts);
  releases(app, parts);
  return app;
}

/**
 * Listens, and resolves to the address as a URL.
 *
 * @throws `port_taken`
 */
export async function listen(app: FastifyInstance, host: string, port: number): Promise<string> {
  try {
    await app.listen({ host, port });
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EADDRINUSE') {
      throw new ConsortError('port_taken', [port, host], { cause: error });
    }
    throw error;
  }
  const address = app.server.address() as AddressInfo;
  const name = address.family === 'IPv6' ? `[${address.address}]` : address.address;
  return `http://${name === '0.0.0.0' ? '127.0.0.1' : name}:${address.port}`;
}

/** A connection that falls idle while the server closes is let go after this at most. */
const LOOK_MS = 200;
/** How long a client may take to read its last words. */
const LAST_WORDS_MS = 5_000;

/**
 * Takes no new connection and lets running requests finish. Those that have not after `graceMs` are told so: a stream by an
 * error event and its end mark.
 */
export async function drain(app: FastifyInstance, graceMs: number, underWay?: UnderWay): Promise<void> {
  const idle = setInterval(() => app.server.closeIdleConnections(), LOOK_MS);
  const end = setTimeout(() => underWay?.end(), graceMs);
  const cut = setTimeout(() => app.server.closeAllConnections(), graceMs + (underWay ? LAST_WORDS_MS : 0));
  await app.close();
  clearInterval(idle);
  clearTimeout(end);
  clearTimeout(cut);
}
