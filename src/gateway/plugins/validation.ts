/** Bodies and queries are checked by the compiled schemas; the first fault is named with field, value and rule. */
import type { FastifyInstance } from 'fastify';
import plugin from 'fastify-plugin';
import type { TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import { faultOf } from '../fault.ts';

export const validation = plugin((app: FastifyInstance, _options: object, done: () => void) => {
  app.setValidatorCompiler<TSchema>(({ schema }) => {
    const validator = Compile(schema);
    return (value: unknown) => {
      if (validator.Check(value)) return { value };
      return { error: faultOf(validator, value) };
    };
  });
  done();
});
