/**
 * trained-route: the member that is the likeliest to be right, by what it was right at before, answers.
 *
 * Source: trained routing (MoCo, arXiv 2601.21257; RouteLLM, arXiv 2406.18665), as one predictor of success for each
 * member instead of one that names a winner: a logistic head over features of the prompt, so that one fit holds for
 * every coalition. Heads come from `consort fit`. Features are hashed words of the user's last turn, computed here.
 * Cost: 1 call, path 1. Role: the member with the highest probability less its price by `worthUsd`, ties and members
 * without a head by the pool's order; should it fail before its first word, the next takes over. Coalition: the best of
 * those present; a coalition of one is a plain call. Loses on prompts unlike those it was fitted to, and when all members
 * are right at the same prompts.
 */
import Type, { type Static } from 'typebox';
import type { Member } from '../../contract/plan.ts';
import type { Task } from '../../contract/task.ts';
import { probabilityOf } from '../../scoring/statistics/logistic.ts';
import { byAlias } from './member-options.ts';
import { promptFeatures } from './prompt-features.ts';
import { defineProtocol } from './protocol.ts';
import { answerAlone } from './single.ts';
import type { SoloRow } from './solo.ts';
import { headsOf, likeliestFirst, rounded } from './success.ts';

const Head = Type.Object(
  { bias: Type.Number(), weights: Type.Array(Type.Number(), { minItems: 1, maxItems: 4096 }) },
  { additionalProperties: false },
);

const TrainedRouteOptions = Type.Object(
  {
    dimensions: Type.Integer({
      minimum: 8,
      maximum: 4096,
      default: 128,
      description: 'Features of a prompt; another number needs another fit.',
    }),
    heads: byAlias(Head, {
      default: {},
      description: 'By alias, the logistic head of its predictor; `consort fit` writes them.',
    }),
    worthUsd: Type.Optional(
      Type.Number({
        exclusiveMinimum: 0,
        description:
          'What a right answer is worth: then a dearer member must be that much likelier to be right.',
      }),
    ),
  },
  { additionalProperties: false },
);
type TrainedRouteOptions = Static<typeof TrainedRouteOptions>;

/** Tokens by which members' prices are compared: their share of the price is what counts. */
const TYPICAL = { input: 500, output: 500 };

/** Undefined where nothing is known of the member. */
function gainOf({ alias, price }: Member, task: Task, { heads, dimensions, worthUsd }: TrainedRouteOptions) {
  const head = heads[alias];
  if (!head) return undefined;
  const chance = probabilityOf(head, promptFeatures(task, dimensions));
  const { input, output } = TYPICAL;
  const usd = (input * price.inputMicros + output * price.outputMicros) / 1e12;
  return worthUsd === undefined ? chance : chance - usd / worthUsd;
}

function fittedHeads(rows: readonly SoloRow[], aliases: readonly string[], dimensions: number) {
  const heads = headsOf(rows, aliases, dimensions);
  return Object.fromEntries(
    aliases.map((alias, index) => {
      const { bias = 0, weights = [] } = heads[index] ?? {};
      return [alias, { bias: rounded(bias), weights: weights.map(rounded) }];
    }),
  );
}

export const trainedRoute = defineProtocol<TrainedRouteOptions>({
  name: 'trained-route',
  version: 1,
  summary: 'The member that is the likeliest to be right, by what it was right at before, answers.',
  source: 'trained routing, arXiv 2601.21257 and 2406.18665',
  options: TrainedRouteOptions,
  streams: true,
  tools: true,
  reuse: 'A',
  showsPrices: ({ worthUsd }) => worthUsd !== undefined,
  symmetric: () => false,
  problem({ heads, dimensions }) {
    const wrong = Object.entries(heads).find(([, { weights }]) => weights.length !== dimensions);
    if (!wrong) return undefined;
    const [alias, { weights }] = wrong;
    return { option: 'heads', wrong: `has ${weights.length} weights for ${alias}, not ${dimensions}` };
  },
  fit: {
    samples: () => 1,
    fit: (options, rows, aliases) => ({ ...options, heads: fittedHeads(rows, aliases, options.dimensions) }),
  },
  describe: () => ({ calls: 1, path: 1, widest: 1 }),
  async *run(task, team, options, context) {
    const order = likeliestFirst(team, (member) => gainOf(member, task, options));
    return yield* answerAlone(task, order, context);
  },
});
