/** Admits requests that run models by the limits of their keys, and gives back what they held when they have ended. */
import type { FastifyInstance } from 'fastify';
import plugin from 'fastify-plugin';
import type { Catalog } from '../catalog.ts';
import { expectedOf } from '../limits/expected.ts';
import type { Limits } from '../limits/limits.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Set on routes whose requests count against the limits of their keys. */
    readonly isLimited?: true;
  }
}

export interface LimitOptions {
  readonly limits: Limits;
  readonly catalog: () => Catalog;
}

export const limits = plugin(
  (app: FastifyInstance, { limits: ofKeys, catalog }: LimitOptions, done: () => void) => {
    app.addHook('preHandler', async ({ caller, routeOptions, body, id }, reply) => {
      if (!routeOptions.config.isLimited || !ofKeys.isLimited(caller.tenant)) return;
      const isObject = typeof body === 'object' && body !== null;
      const expected = expectedOf(isObject ? { ...body } : {}, catalog());
      const admission = await ofKeys.admit(caller.tenant, id, expected);
      if (reply.raw.destroyed) admission.release();
      else reply.raw.once('close', admission.release);
    });
    done();
  },
);
