/** Bodies and queries are checked by the compiled schemas; the first fault is named with field, value and rule. */
import type { FastifyInstance } from 'fastify';
import plugin from 'fastify-plugin';
import type { TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import { ConsortError } from '../../contract/errors.ts';

/** The value at a JSON pointer. */
function valueAt(root: unknown, pointer: string): unknown {
  let value = root;
  for (const step of pointer.split('/').slice(1)) {
    if (typeof value !== 'object' || value === null) return undefined;
    value = Object.entries(value).find(([name]) => name === step)?.[1];
  }
  return value;
}

/** Long values are cut, so that an error never echoes a whole prompt. */
function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? 'missing';
  return text.length > 80 ? `${text.slice(0, 77)}…` : text;
}

function faultOf(errors: readonly { instancePath: string; message: string }[], value: unknown): ConsortError {
  // The deepest path is the most telling: a union reports each of its branches.
  const deepest = errors.toSorted((a, b) => b.instancePath.length - a.instancePath.length)[0];
  const field = deepest?.instancePath.slice(1).replaceAll('/', '.') || 'body';
  const rule =
    deepest?.message === 'schema is false' ? 'is not a known field' : (deepest?.message ?? 'is invalid');
  const found = shown(valueAt(value, deepest?.instancePath ?? ''));
  return new ConsortError('invalid_request', [field, `${rule}, got ${found}`], { param: field });
}

export const validation = plugin((app: FastifyInstance, _options: object, done: () => void) => {
  app.setValidatorCompiler<TSchema>(({ schema }) => {
    const validator = Compile(schema);
    return (value: unknown) =>
      validator.Check(value) ? { value } : { error: faultOf([...validator.Errors(value)], value) };
  });
  done();
});
