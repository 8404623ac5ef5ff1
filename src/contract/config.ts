/**
 * The configuration file, as a schema. Every field says what it means; `docs/reference/config.md` lists the same
 * fields and a test compares them. Defaults are filled in by the loader.
 */
import Type, { type Static } from 'typebox';
import { AuthConfig } from './auth-config.ts';
import { Alias } from './alias.ts';
import { MergedConfig, mergeMethod, WeightsConfig } from './merge.ts';
import { Capabilities, Provider } from './plan.ts';
import { BreakerConfig, EndpointConfig, TimeoutsConfig } from './resilience-config.ts';
import { ShadowConfig } from './shadow-config.ts';
import { HostingConfig, TrainConfig, TrainerConfig } from './train-config.ts';

const strict = { additionalProperties: false };
/** A section that may be left out: its fields then have their defaults. */
const section = { additionalProperties: false, default: {} };

export const ServerConfig = Type.Object(
  {
    host: Type.String({ default: '127.0.0.1', description: 'Address of the public port.' }),
    port: Type.Integer({
      default: 8080,
      minimum: 0,
      maximum: 65535,
      description: 'Public port; 0 picks a free one.',
    }),
    probeAtStart: Type.Boolean({
      default: false,
      description:
        'Whether `consort serve` asks every endpoint what it can do before it listens, by a dozen tiny requests each; ' +
        'what is found stands in for capabilities that the models do not state.',
    }),
    adminHost: Type.String({ default: '127.0.0.1', description: 'Address of the admin port.' }),
    adminPort: Type.Integer({
      default: 9464,
      minimum: 0,
      maximum: 65535,
      description: 'Port of /livez, /readyz, /startupz and /metrics; 0 picks a free one.',
    }),
    maxBodyBytes: Type.Integer({ default: 8_388_608, minimum: 1024, description: 'Largest request body.' }),
    maxStreamSeconds: Type.Integer({
      default: 540,
      minimum: 1,
      description: 'Longest life of one response.',
    }),
    heartbeatSeconds: Type.Integer({
      default: 15,
      minimum: 1,
      description: 'Silence before a heartbeat comment.',
    }),
    drainSeconds: Type.Integer({
      default: 30,
      minimum: 0,
      description: 'Time that running requests get at SIGTERM; then streams end with an error event.',
    }),
    maxRuns: Type.Integer({
      default: 1_000,
      minimum: 1,
      description: 'Most runs under way in one process; beyond that requests are refused with 503.',
    }),
    maxLoopDelayMs: Type.Integer({
      default: 500,
      minimum: 1,
      description:
        'How late the event loop may be for two looks in a row before requests are refused with 503.',
    }),
    inlinePlans: Type.Boolean({
      default: false,
      description: 'Whether clients may ask for consort/<protocol>:<alias>+<alias>.',
    }),
  },
  section,
);

export const StoreConfig = Type.Object(
  {
    url: Type.String({
      default: 'sqlite:.consort/consort.db',
      pattern: '^(sqlite:.+|rediss?://.+)$',
      description: 'sqlite:<file>, redis://… or rediss://…',
    }),
    retentionDays: Type.Integer({
      default: 30,
      minimum: 1,
      description: 'Age at which outcomes may be dropped.',
    }),
    spoolDirectory: Type.String({
      default: '.consort/spool',
      description: 'Where outcomes wait until the store has them.',
    }),
    spoolMaxBytes: Type.Integer({
      default: 268_435_456,
      minimum: 65_536,
      description: 'Bound of the spool; beyond it outcomes are dropped and counted.',
    }),
  },
  section,
);

export const ModelConfig = Type.Object(
  {
    id: Alias('Our name for the model'),
    provider: Provider,
    baseUrl: Type.Optional(
      Type.String({ pattern: '^https?://', description: 'Up to and with /v1; not for provider sim.' }),
    ),
    endpoints: Type.Array(EndpointConfig, {
      default: [],
      maxItems: 64,
      description: 'Further places where the very same model can be asked.',
    }),
    model: Type.Optional(
      Type.String({ minLength: 1, description: 'The upstream’s name for it; default is the id.' }),
    ),
    apiKey: Type.Optional(Type.String({ minLength: 1, description: 'A secret: ${ENV_NAME} or file:/path.' })),
    description: Type.String({ default: '', description: 'Shown in /v1/models and read by routers.' }),
    revision: Type.String({
      default: '',
      description: 'Change it when the model behind the name changes; part of every statistic’s key.',
    }),
    price: Type.Optional(
      Type.Object(
        {
          inputUsdPerMTok: Type.Number({ minimum: 0, description: 'USD per million input tokens.' }),
          outputUsdPerMTok: Type.Number({ minimum: 0, description: 'USD per million output tokens.' }),
        },
        strict,
      ),
    ),
    capabilities: Type.Optional(Capabilities),
    hosting: Type.Optional(HostingConfig),
    weights: Type.Optional(WeightsConfig),
    merged: Type.Optional(MergedConfig),
    timeouts: TimeoutsConfig,
    retries: Type.Integer({
      default: 2,
      minimum: 0,
      maximum: 10,
      description: 'Further attempts after a retryable failure, before the first part.',
    }),
    retryShare: Type.Number({
      default: 0.2,
      minimum: 0,
      maximum: 10,
      description:
        'Most further attempts as a share of calls, so that an outage is not multiplied; ten are there whatever the ' +
        'traffic, and come back by one a second. 0: those ten, once.',
    }),
    breaker: BreakerConfig,
    fallbacks: Type.Array(Type.String(), {
      default: [],
      uniqueItems: true,
      maxItems: 8,
      description:
        'Models that stand in, in this order, when this one fails before its first word in a live run; best from ' +
        'outside of its pools.',
    }),
    hedgeAfterMs: Type.Optional(
      Type.Integer({
        minimum: 1,
        description:
          'Silence after which the same is asked a second time, of another endpoint if there is one; who speaks first is ' +
          'heard, and both are paid.',
      }),
    ),
    connections: Type.Integer({
      default: 256,
      minimum: 1,
      description: 'Most connections to each endpoint.',
    }),
    delays: Type.Boolean({
      default: true,
      description: 'Provider sim only: whether it takes its simulated time.',
    }),
    failures: Type.Boolean({
      default: true,
      description: 'Provider sim only: whether its simulated faults happen.',
    }),
  },
  strict,
);

export const PoolConfig = Type.Object(
  {
    id: Alias('Name of the pool'),
    members: Type.Array(Type.String(), {
      minItems: 1,
      maxItems: 20,
      uniqueItems: true,
      description: 'Model ids in canonical order, strongest first: the order fills roles and breaks ties.',
    }),
    merged: Type.Optional(
      mergeMethod('Coalitions of two or more run as the one model that was merged from just them, this way.'),
    ),
  },
  strict,
);

export const OverrideField = Type.Union([
  Type.Literal('coalition'),
  Type.Literal('options'),
  Type.Literal('budget'),
  Type.Literal('seed'),
  Type.Literal('trace'),
]);

export const SystemConfig = Type.Object(
  {
    id: Alias('Clients ask for consort/<id>'),
    pool: Type.String({ description: 'A pool’s id.' }),
    protocol: Type.String({ description: 'A protocol’s name; docs/protocols.md lists them.' }),
    options: Type.Record(Type.String(), Type.Unknown(), {
      default: {},
      description: 'The protocol’s options.',
    }),
    optionsFile: Type.Optional(
      Type.String({
        minLength: 1,
        description:
          'A file of options that `consort fit` wrote, relative to the configuration; those above come before it.',
      }),
    ),
    budget: Type.Object(
      {
        calls: Type.Integer({ default: 32, minimum: 1, description: 'Most upstream calls of one request.' }),
        deadlineMs: Type.Integer({
          default: 120_000,
          minimum: 1,
          description: 'Longest run of one request.',
        }),
        costUsd: Type.Optional(
          Type.Number({
            exclusiveMinimum: 0,
            description: 'Most that one request may cost; none is no limit.',
          }),
        ),
      },
      section,
    ),
    reward: Type.Optional(
      Type.Object(
        {
          verifier: Type.String({
            description: 'Grades requests that bring a gold answer without a verifier.',
          }),
          params: Type.Record(Type.String(), Type.Unknown(), {
            default: {},
            description: 'The verifier’s parameters.',
          }),
        },
        strict,
      ),
    ),
    shadow: Type.Optional(ShadowConfig),
    train: Type.Optional(TrainConfig),
    tools: Type.Union([Type.Literal('speaker'), Type.Array(Type.String(), { uniqueItems: true })], {
      default: 'speaker',
      description:
        'Who may call the client’s tools: the member that speaks, whoever it is, or these aliases when they speak; ' +
        'with an empty list nobody, and requests with tools are refused.',
    }),
    overrides: Type.Array(OverrideField, {
      default: ['coalition', 'options', 'budget', 'seed', 'trace'],
      description: 'What a request may set in its consort field; a budget can only be lowered.',
    }),
  },
  strict,
);

export const Config = Type.Object(
  {
    server: ServerConfig,
    store: StoreConfig,
    auth: AuthConfig,
    models: Type.Array(ModelConfig, { default: [], description: 'Every model that can be called.' }),
    pools: Type.Array(PoolConfig, { default: [], description: 'Groups of models.' }),
    systems: Type.Array(SystemConfig, {
      default: [],
      description: 'A pool with a protocol: a virtual model.',
    }),
    trainers: Type.Array(TrainerConfig, { default: [], description: 'Servers that train policies.' }),
  },
  strict,
);
export type Config = Static<typeof Config>;
export type ServerConfig = Static<typeof ServerConfig>;
export type StoreConfig = Static<typeof StoreConfig>;
export type ModelConfig = Static<typeof ModelConfig>;
export type PoolConfig = Static<typeof PoolConfig>;
export type SystemConfig = Static<typeof SystemConfig>;
export type OverrideField = Static<typeof OverrideField>;
