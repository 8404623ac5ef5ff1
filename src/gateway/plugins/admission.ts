/** Refuses requests that run models before anything of them is read, while the process has enough to do. */
import type { FastifyInstance } from 'fastify';
import plugin from 'fastify-plugin';
import type { Admission } from '../limits/admission.ts';

export const admission = plugin(
  (app: FastifyInstance, { admission: gate }: { readonly admission: Admission }, done: () => void) => {
    app.addHook('onRequest', ({ routeOptions }, _reply, next) => {
      if (routeOptions.config.isLimited) gate.check();
      next();
    });
    done();
  },
);
