/** Bodies are JSON and nothing else, and what is wrong with one is said. */
import type { FastifyInstance } from 'fastify';
import plugin from 'fastify-plugin';
import { ConsortError } from '../../contract/errors.ts';

/** Why the parser refused: it keeps the reason to itself. */
function reasonOf(body: string): string {
  if (body.trim() === '') return 'it is empty';
  try {
    JSON.parse(body);
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
  return 'a field named __proto__ or constructor is not taken';
}

export const json = plugin((app: FastifyInstance, _options: object, done: () => void) => {
  const parse = app.getDefaultJsonParser('error', 'error');
  app.removeContentTypeParser('text/plain');
  app.addContentTypeParser<string>('application/json', { parseAs: 'string' }, (request, body, finish) => {
    void parse(request, body, (error, value) => {
      finish(error && new ConsortError('invalid_json', [reasonOf(body)]), value);
    });
  });
  done();
});
