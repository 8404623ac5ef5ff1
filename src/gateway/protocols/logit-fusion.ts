/**
 * logit-fusion: all members write one text together, each token drawn from the mean of their log-probabilities.
 *
 * Source: the geometric mean of models (product of experts; MoCo, arXiv 2601.21257, logit fusion): the softmax of mean
 * log-probabilities is that of mean logits. Cost for T tokens: n(T+1) calls, and at most n+1 more a token, for values
 * that are missing among the likeliest and for the words of a token that nobody would have said; path T to 3T. Role:
 * none; weights are made to sum to 1 over the members that are there. A coalition of one is a plain call; a member that
 * fails is left out from then on. Values that are missing where an endpoint cannot be asked for tokens by id count as
 * the smallest that it told, so a token's score can be too high by its share of how far the truth lies below that.
 * Needs one vocabulary and is refused without. Loses when one member is sure and right and another is sure and wrong:
 * a mean of logarithms lets each forbid what it does not expect.
 */
import Type, { type Static } from 'typebox';
import { byAlias } from './member-options.ts';
import { defineProtocol } from './protocol.ts';
import { answerAlone } from './single.ts';
import { MaxTokens, mixShape, Top } from './token-options.ts';
import { mixTokens } from './token-mix.ts';
import { fusionOf } from './token-values.ts';

const FusionOptions = Type.Object(
  {
    weights: byAlias(Type.Number({ exclusiveMinimum: 0 }), {
      default: {},
      description: 'How much each alias counts; 1 where none is given.',
    }),
    top: Top,
    maxTokens: MaxTokens,
  },
  { additionalProperties: false },
);
type FusionOptions = Static<typeof FusionOptions>;

const NAME = 'logit-fusion';

export const logitFusion = defineProtocol<FusionOptions>({
  name: NAME,
  version: 1,
  summary: 'All members write one text: each token is drawn from the mean of their log-probabilities.',
  source: 'logit fusion, arXiv 2601.21257',
  options: FusionOptions,
  streams: true,
  tools: false,
  reuse: 'D',
  symmetric: () => false,
  needs: () => ['completions', 'logprobs', 'tokenIds'],
  describe: ({ maxTokens }, members) => mixShape(members, maxTokens),
  async *run(task, team, { weights, top, maxTokens }, context) {
    if (team.length === 1) return yield* answerAlone(task, team, context);
    const mixture = fusionOf((alias) => weights[alias] ?? 1);
    return yield* mixTokens(task, team, { name: NAME, mixture, top, maxTokens }, context);
  },
});
