/** How long a model is waited for, and when it is left alone: parts of a model's configuration. */
import Type from 'typebox';

/** A section that may be left out: its fields then have their defaults. */
const section = { additionalProperties: false, default: {} };

export const TimeoutsConfig = Type.Object(
  {
    connectMs: Type.Integer({ default: 5_000, minimum: 1, description: 'Opening a connection.' }),
    firstPartMs: Type.Integer({ default: 120_000, minimum: 1, description: 'Until the first payload part.' }),
    partMs: Type.Integer({
      default: 60_000,
      minimum: 1,
      description: 'Between payload parts; heartbeats do not count.',
    }),
    totalMs: Type.Integer({ default: 600_000, minimum: 1, description: 'The whole call.' }),
  },
  section,
);

export const EndpointConfig = Type.Object(
  {
    baseUrl: Type.String({ pattern: '^https?://', description: 'Up to and with /v1.' }),
    apiKey: Type.Optional(
      Type.String({
        minLength: 1,
        description:
          'A secret: ${ENV_NAME} or file:/path. Default is the model’s, unless the model has a baseUrl elsewhere, ' +
          'to which that key then belongs.',
      }),
    ),
  },
  { additionalProperties: false },
);

export const BreakerConfig = Type.Object(
  {
    enabled: Type.Boolean({
      default: true,
      description:
        'Whether an endpoint is left alone for a while when it keeps failing or is over its limits.',
    }),
    failures: Type.Integer({
      default: 5,
      minimum: 1,
      description:
        'Failures in a row after which it is left alone, where three quarters of its calls within ten seconds failed; ' +
        'such a share of 20 calls does as well, and four times as many failures in a row.',
    }),
    openMs: Type.Integer({
      default: 10_000,
      minimum: 1,
      description: 'For how long; twice that each time its probe fails again, up to eight times.',
    }),
    coolMs: Type.Integer({
      default: 60_000,
      minimum: 1,
      description: 'How long at most after a 429, and how long when its account has no credit.',
    }),
  },
  section,
);
