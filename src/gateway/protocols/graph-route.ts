/**
 * graph-route: the member whose frozen vector goes best with that of the prompt answers.
 *
 * Source: graph routing (GraphRouter, arXiv 2410.03834; MoCo, arXiv 2601.21257). There only the models' nodes are
 * convolved, so their vectors do not change from request to request: they are frozen, with the projection of the
 * prompt's features, and a request costs one projection and n dot products. Vectors may come from a graph network that
 * was trained elsewhere; those of `consort fit` are ours, and simpler: the nearest factors of rank `rank` to the heads of
 * trained-route, which with few data are steadier than the heads. Cost: 1 call, path 1. Role: the member with the
 * highest score, ties and members without a vector by the pool's order; should it fail before its first word, the next
 * takes over. Coalition: the best of those present; a coalition of one is a plain call. Loses on prompts unlike those it
 * was fitted to.
 */
import Type, { type Static } from 'typebox';
import type { Member } from '../../contract/plan.ts';
import { lowRank } from '../../scoring/statistics/low-rank.ts';
import { byAlias } from './member-options.ts';
import { promptFeatures } from './prompt-features.ts';
import { defineProtocol } from './protocol.ts';
import { answerAlone } from './single.ts';
import type { SoloRow } from './solo.ts';
import { headsOf, likeliestFirst, rounded } from './success.ts';

const Numbers = Type.Array(Type.Number(), { minItems: 1, maxItems: 4096 });

const GraphRouteOptions = Type.Object(
  {
    dimensions: Type.Integer({
      minimum: 8,
      maximum: 4096,
      default: 128,
      description: 'Features of a prompt; another number needs another fit.',
    }),
    rank: Type.Integer({
      minimum: 1,
      maximum: 64,
      default: 4,
      description: 'Numbers of a vector, when it is fitted.',
    }),
    projection: Type.Array(Numbers, {
      default: [],
      description: 'From the features of a prompt to its vector: a row for each number of a vector.',
    }),
    vectors: byAlias(Type.Object({ bias: Type.Number(), vector: Numbers }, { additionalProperties: false }), {
      default: {},
      description: 'By alias, the member’s frozen vector, and what is added to its product.',
    }),
  },
  { additionalProperties: false },
);
type GraphRouteOptions = Static<typeof GraphRouteOptions>;

const dot = (one: readonly number[], other: readonly number[]) =>
  one.reduce((sum, value, index) => sum + value * (other[index] ?? 0), 0);

function fitted(rows: readonly SoloRow[], aliases: readonly string[], options: GraphRouteOptions) {
  const heads = headsOf(rows, aliases, options.dimensions);
  const { left, right } = lowRank(
    heads.map(({ weights }) => weights),
    options.rank,
  );
  const vectors = aliases.map((alias, index) => {
    return [
      alias,
      { bias: rounded(heads[index]?.bias ?? 0), vector: (left[index] ?? []).map(rounded) },
    ] as const;
  });
  return { projection: right.map((row) => row.map(rounded)), vectors: Object.fromEntries(vectors) };
}

export const graphRoute = defineProtocol<GraphRouteOptions>({
  name: 'graph-route',
  version: 1,
  summary: 'The member whose frozen vector goes best with that of the prompt answers.',
  source: 'graph routing, arXiv 2410.03834 and 2601.21257',
  options: GraphRouteOptions,
  streams: true,
  tools: true,
  reuse: 'A',
  symmetric: () => false,
  problem({ projection, vectors, dimensions }) {
    const row = projection.find(({ length }) => length !== dimensions);
    if (row) return { option: 'projection', wrong: `has a row of ${row.length} numbers, not ${dimensions}` };
    const wrong = Object.entries(vectors).find(([, { vector }]) => vector.length !== projection.length);
    if (!wrong) return undefined;
    const [alias, { vector }] = wrong;
    const rows = projection.length;
    return {
      option: 'vectors',
      wrong: `has ${vector.length} numbers for ${alias}, and projection ${rows} rows`,
    };
  },
  fit: {
    samples: () => 1,
    fit: (options, rows, aliases) => ({ ...options, ...fitted(rows, aliases, options) }),
  },
  describe: () => ({ calls: 1, path: 1, widest: 1 }),
  async *run(task, team, { dimensions, projection, vectors }, context) {
    const features = promptFeatures(task, dimensions);
    const asked = projection.map((row) => dot(row, features));
    const scoreOf = ({ alias }: Member) => {
      const own = vectors[alias];
      return own && own.bias + dot(own.vector, asked);
    };
    return yield* answerAlone(task, likeliestFirst(team, scoreOf), context);
  },
});
