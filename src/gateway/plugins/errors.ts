/** Every error leaves in OpenAI's envelope, with a code from the catalogue. */
import type { FastifyError, FastifyInstance } from 'fastify';
import plugin from 'fastify-plugin';
import { ConsortError } from '../../contract/errors.ts';
import type { Metrics } from '../metrics.ts';

/** Fastify's own errors, in our words. */
function translate(error: FastifyError, maxBodyBytes: number): ConsortError {
  switch (error.code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return new ConsortError('body_too_large', [maxBodyBytes]);
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return new ConsortError('unsupported_media_type', [error.message.split(': ').at(-1)]);
    case 'FST_ERR_CTP_EMPTY_JSON_BODY':
    case 'FST_ERR_CTP_INVALID_JSON_BODY':
      return new ConsortError('invalid_json', [error.message]);
    default:
      if (error instanceof SyntaxError) return new ConsortError('invalid_json', [error.message]);
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
      const error = ConsortError.is(thrown) ? thrown : translate(thrown, maxBodyBytes);
      if (error.code === 'internal') request.log.error({ err: error.cause ?? error }, 'unforeseen error');
      if (reply.getHeader('x-consort-outcome') === undefined) metrics.rejected(error.code);
      if (error.retryAfterMs !== null) void reply.header('retry-after', Math.ceil(error.retryAfterMs / 1000));
      return reply.code(error.status).send(error.toBody());
    });
    app.setNotFoundHandler((request) => {
      throw new ConsortError('route_not_found', [request.method, request.url.split('?')[0]]);
    });
    done();
  },
);
