/** The part of the configuration about hosted policies: who serves their weights, who trains them, and on what. */
import Type, { type Static } from 'typebox';
import { AdvantageKind, Objective } from './trajectory.ts';

const strict = { additionalProperties: false };
const section = { additionalProperties: false, default: {} };

/** What a training run can be asked for; `mix` alternates groups of `team` and `solo`. */
export const ObjectiveChoice = Type.Union([Objective, Type.Literal('mix')]);
export type ObjectiveChoice = Static<typeof ObjectiveChoice>;

export const HostingConfig = Type.Object(
  {
    fleet: Type.Literal('vllm', {
      default: 'vllm',
      description: 'How its servers load adapters: by the routes of vLLM.',
    }),
    replicas: Type.Array(Type.String({ pattern: '^https?://' }), {
      minItems: 1,
      maxItems: 256,
      description: 'Address of every replica up to and with /v1, never of a load balancer.',
    }),
    base: Type.Optional(
      Type.String({
        minLength: 1,
        description: 'The replicas’ name of the base; default is the model’s name.',
      }),
    ),
    adapters: Type.String({
      default: '.consort/adapters',
      minLength: 1,
      description: 'Folder of the adapters: the same path here and on every replica.',
    }),
    maxRank: Type.Integer({
      default: 64,
      minimum: 1,
      description: 'Largest LoRA rank that the replicas take.',
    }),
  },
  strict,
);
export type HostingConfig = Static<typeof HostingConfig>;

export const TrainerConfig = Type.Object(
  {
    id: Type.String({ pattern: '^[a-z0-9][a-z0-9.-]{0,63}$', description: 'Name of the trainer.' }),
    kind: Type.Literal('tinker', {
      default: 'tinker',
      description: 'Its protocol: that of Tinker, which SkyRL and others speak.',
    }),
    baseUrl: Type.String({ pattern: '^https?://', description: 'Its address, without /api/v1.' }),
    baseModel: Type.String({ minLength: 1, description: 'The trainer’s name of the policy’s base model.' }),
    apiKey: Type.Optional(Type.String({ minLength: 1, description: 'A secret: ${ENV_NAME} or file:/path.' })),
    archiveHosts: Type.Array(Type.String(), {
      default: [],
      description: 'Hosts besides its own that it may send a download to.',
    }),
    directory: Type.String({
      default: '.consort/training',
      minLength: 1,
      description: 'Where the runs keep their journals, groups and reports; must outlive the process.',
    }),
  },
  strict,
);
export type TrainerConfig = Static<typeof TrainerConfig>;

export const TrainConfig = Type.Object(
  {
    policy: Type.String({ description: 'The member that learns; its model needs `hosting`.' }),
    trainer: Type.String({ description: 'A trainer’s id.' }),
    prompts: Type.String({ minLength: 1, description: 'Task file to learn from.' }),
    holdout: Type.String({
      minLength: 1,
      description: 'Task file to compare versions on: none of its tasks in `prompts`.',
    }),
    objective: {
      ...ObjectiveChoice,
      default: 'mix',
      description:
        'What is rewarded: the team’s outcome, the policy’s own, alone, or team and alone by turns.',
    },
    group: Type.Integer({
      default: 8,
      minimum: 2,
      maximum: 256,
      description: 'Rollouts of one prompt.',
    }),
    batch: Type.Integer({ default: 16, minimum: 1, maximum: 4096, description: 'Prompts of one step.' }),
    waves: Type.Integer({
      default: 3,
      minimum: 1,
      maximum: 10,
      description: 'How often prompts are drawn until a batch of them has something to teach.',
    }),
    steps: Type.Integer({ default: 20, minimum: 1, description: 'Steps between two releases.' }),
    everyMinutes: Type.Number({
      default: 60,
      minimum: 0,
      description: 'From the start of one round to the next.',
    }),
    advantage: {
      ...AdvantageKind,
      default: 'rloo',
      description: 'How a rollout is compared with its group.',
    },
    maxTokens: Type.Integer({ default: 512, minimum: 1, description: 'Longest response of the policy.' }),
    rank: Type.Integer({ default: 16, minimum: 1, description: 'Of the LoRA adapter.' }),
    learningRate: Type.Number({ default: 2e-5, exclusiveMinimum: 0, description: 'Of Adam.' }),
    gradClipNorm: Type.Number({
      default: 1,
      minimum: 0,
      description: 'Largest norm of a gradient, where the trainer clips; 0 does not.',
    }),
    seed: Type.Integer({ default: 0, minimum: 0, description: 'Of the adapter and the order of prompts.' }),
    concurrency: Type.Integer({
      default: 8,
      minimum: 1,
      maximum: 256,
      description: 'Groups under way at once.',
    }),
    gate: Type.Object(
      {
        margin: Type.Number({
          default: 0,
          minimum: -1,
          maximum: 1,
          description: 'What a version must be shown to gain: 0 is better, −0.02 not worse by 0.02.',
        }),
        alpha: Type.Number({
          default: 0.05,
          exclusiveMinimum: 0,
          maximum: 0.5,
          description: 'Chance of promoting one that is not, over all versions ever.',
        }),
      },
      section,
    ),
  },
  strict,
);
export type TrainConfig = Static<typeof TrainConfig>;
