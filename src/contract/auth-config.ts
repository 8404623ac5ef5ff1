/** The part of the configuration about keys: who may ask for what, and how much of it. */
import Type, { type Static } from 'typebox';
import { Alias } from './alias.ts';

const strict = { additionalProperties: false };
const section = { additionalProperties: false, default: {} };

export const LimitsConfig = Type.Object(
  {
    requestsPerMinute: Type.Optional(
      Type.Integer({ minimum: 1, description: 'Requests that run models, in each minute of UTC.' }),
    ),
    tokensPerMinute: Type.Optional(
      Type.Integer({
        minimum: 1,
        description:
          'Tokens read and written by all calls of its runs, in each minute of UTC; those of the prompt are ' +
          'counted before a request runs, the others as its runs end.',
      }),
    ),
    concurrent: Type.Optional(
      Type.Integer({ minimum: 1, description: 'Requests at once, streamed or not.' }),
    ),
    usdPerDay: Type.Optional(
      Type.Number({
        exclusiveMinimum: 0,
        description:
          'Most that its runs may cost in each day of UTC, by the models’ prices; what a request may cost is ' +
          'reserved before it runs.',
      }),
    ),
  },
  { ...strict, description: 'Shared by all processes through the store.' },
);

export const KeyConfig = Type.Object(
  {
    name: Alias('Shown in records and logs instead of the key'),
    sha256: Type.String({ pattern: '^[0-9a-f]{64}$', description: 'Hex SHA-256 of the key.' }),
    models: Type.Array(Type.String(), {
      default: ['*'],
      description: 'Model patterns; * matches any characters.',
    }),
    permissions: Type.Array(Type.Union([Type.Literal('score')]), {
      default: [],
      description: 'score: may send gold, verifier and design, and post feedback.',
    }),
    limits: Type.Optional(LimitsConfig),
  },
  strict,
);

export const AuthConfig = Type.Object(
  {
    required: Type.Boolean({ default: false, description: 'Whether every request needs a key.' }),
    keys: Type.Array(KeyConfig, { default: [], description: 'The known keys.' }),
    withoutStore: Type.Union([Type.Literal('count-alone'), Type.Literal('refuse')], {
      default: 'count-alone',
      description:
        'What happens to requests of keys with limits while the store is away: each process applies the limits ' +
        'alone, from zero, or they are refused.',
    }),
  },
  section,
);
export type KeyConfig = Static<typeof KeyConfig>;
export type AuthConfig = Static<typeof AuthConfig>;
