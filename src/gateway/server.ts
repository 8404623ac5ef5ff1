/** The public server: plugins and routes, in order. */
import { fastify, LogController, type FastifyInstance } from 'fastify';
import { auth } from './plugins/auth.ts';
import { errors } from './plugins/errors.ts';
import { validation } from './plugins/validation.ts';
import type { GatewayParts } from './ports.ts';
import { chatCompletions } from './routes/chat-completions.ts';
import { models } from './routes/models.ts';
import { records } from './routes/records.ts';

export async function createServer(parts: GatewayParts): Promise<FastifyInstance> {
  const { server, auth: authConfig } = parts.config;
  const app = fastify({
    loggerInstance: parts.logger,
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: server.maxBodyBytes,
    genReqId: () => parts.newId(),
    requestIdHeader: 'x-request-id',
    // Requests on kept-alive sockets are served while draining; the readiness probe takes us out of rotation.
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    // Longer than common proxies keep theirs, so that they never reuse a connection we have just closed.
    keepAliveTimeout: 95_000,
    routerOptions: { maxParamLength: 500 },
  });
  await app.register(errors, { metrics: parts.metrics, maxBodyBytes: server.maxBodyBytes });
  await app.register(validation);
  await app.register(auth, authConfig);
  chatCompletions(app, parts);
  models(app, parts);
  records(app, parts);
  return app;
}
