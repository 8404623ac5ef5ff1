/** Bodies are JSON and nothing else, and what is wrong with one is said. */
import type { FastifyInstance } from 'fastify';
import plugin from 'fastify-plugin';
import { ConsortError } from '../../contract/errors.ts';

/** Objects and lists inside each other. What is deeper overflows the stack wherever it is copied, checked or written. */
const MAX_LEVELS = 100;
const TOO_DEEP = `it is nested deeper than ${MAX_LEVELS} levels`;

const isNested = (value: unknown): value is object => typeof value === 'object' && value !== null;

/** Level by level and not by recursion, which is what it guards. */
function isTooDeep(body: unknown): boolean {
  let level = [body].filter(isNested);
  for (let depth = 1; level.length > 0; depth += 1) {
    if (depth > MAX_LEVELS) return true;
    level = level.flatMap((value): unknown[] => Object.values(value)).filter(isNested);
  }
  return false;
}

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
      if (error) finish(new ConsortError('invalid_json', [reasonOf(body)]), undefined);
      else if (isTooDeep(value)) finish(new ConsortError('invalid_json', [TOO_DEEP]), undefined);
      else finish(null, value);
    });
  });
  done();
});
