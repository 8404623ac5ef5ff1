/** Every error leaves in OpenAI's envelope, with a code from the catalogue. */
import type { FastifyError, FastifyInstance, FastifyRequest } from 'fastify';
import plugin from 'fastify-plugin';
import { ConsortError } from '../../contract/errors.ts';
import type { Metrics } from '../metrics.ts';

/** Fastify's own errors, in our words. */
function translate(error: FastifyError, request: FastifyRequest, maxBodyBytes: number): ConsortError {
  switch (error.code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return new ConsortError('body_too_large', [maxBodyBytes]);
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return new ConsortError('unsupported_media_type', [request.headers['content-type'] ?? 'none']);
    default:
      if (error.statusCode !== undefined && error.statusCode < 500) {
        return new ConsortError('invalid_request', ['request', error.message], { status: error.statusCode });
      }
      return ConsortError.from(error);
  }
}

export interface ErrorOptions {
  readonly metrics: Metrics;
  readonly maxBodyBytes: number;
}

export const errors = plugin(
  (app: FastifyInstance, { metrics, maxBodyBytes }: ErrorOptions, done: () => void) => {
    app.setErrorHandler((thrown: FastifyError, request, reply) => {
      const error = ConsortError.is(thrown) ? thrown : translate(thrown, request, maxBodyBytes);
      if (error.code === 'internal')
        request.log.error({ reqId: request.id, err: error.cause ?? error }, 'unforeseen error');
      if (reply.getHeader('x-consort-outcome') === undefined) metrics.rejected(error.code);
      if (error.retryAfterMs !== null) void reply.header('retry-after', Math.ceil(error.retryAfterMs / 1000));
      return reply.code(error.status).send(error.toBody());
    });
    const known: { readonly method: string; readonly url: RegExp }[] = [];
    app.addHook('onRoute', ({ method, url }) => {
      const pattern = url.replace(/:[^/]+/g, '[^/]+').replaceAll('*', '.+');
      for (const one of [method].flat()) known.push({ method: one, url: new RegExp(`^${pattern}$`) });
    });
    app.setNotFoundHandler((request, reply) => {
      const path = request.url.split('?')[0] ?? '';
      const methods = known.filter(({ url }) => url.test(path)).map(({ method }) => method);
      const isWrongMethod = methods.length > 0;
      if (isWrongMethod) void reply.header('allow', methods.join(', '));
      throw new ConsortError('route_not_found', [request.method, path], {
        status: isWrongMethod ? 405 : 404,
      });
    });
    done();
  },
);
