/** The admin server: probes and metrics, on a port of its own that no client sees. */
import { fastify, type FastifyInstance } from 'fastify';
import type { Registry } from 'prom-client';

export interface Health {
  /** Started and not yet draining. A store that is away does not make the gateway unready: it spools. */
  readonly ready: () => boolean;
  readonly started: () => boolean;
}

export function createAdmin(registry: Registry, { ready, started }: Health): FastifyInstance {
  const app = fastify({ forceCloseConnections: true });
  const probe = (path: string, healthy: () => boolean) =>
    app.get(path, (_request, reply) => {
      const ok = healthy();
      return reply.code(ok ? 200 : 503).send({ status: ok ? 'ok' : 'unavailable' });
    });
  probe('/livez', () => true);
  probe('/readyz', ready);
  probe('/startupz', started);
  app.get('/metrics', async (_request, reply) =>
    reply.type(registry.contentType).send(await registry.metrics()),
  );
  return app;
}
