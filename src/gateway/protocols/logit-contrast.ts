/**
 * logit-contrast: the strongest member writes, leaning towards what stronger members think more of than weaker ones.
 *
 * Source: contrastive decoding (arXiv 2210.15097) over a pool (MoCo, arXiv 2601.21257, logit contrastive): the
 * strongest's log-probabilities plus lambda times the sum of the differences of the k strongest and the k weakest. Cost
 * and path as logit-fusion. Role: ranks are the pool's order inside the coalition, k at most half of it; a member that
 * fails is left out, and the ranks close up. Candidates are the tokens that the strongest finds plausible, and a
 * difference with a side that is only known to be low is never counted in a token's favour: else a weak member's
 * silence would be the best praise. A coalition of one is a plain call. Needs one vocabulary and is refused without.
 * Loses when the weak members are weak at other things than the question is about: then what they lack is noise.
 */
import Type, { type Static } from 'typebox';
import { defineProtocol } from './protocol.ts';
import { answerAlone } from './single.ts';
import { MaxTokens, mixShape, Top } from './token-options.ts';
import { mixTokens } from './token-mix.ts';
import { contrastOf } from './token-values.ts';

const ContrastOptions = Type.Object(
  {
    k: Type.Integer({
      minimum: 1,
      maximum: 10,
      default: 1,
      description:
        'How many of the strongest are set against as many of the weakest; at most half of the coalition.',
    }),
    lambda: Type.Number({
      minimum: 0,
      maximum: 10,
      default: 0.2,
      description: 'How much the differences count.',
    }),
    plausible: Type.Number({
      exclusiveMinimum: 0,
      maximum: 1,
      default: 0.1,
      description:
        'Least probability of a candidate at the strongest member, as a share of its likeliest token’s.',
    }),
    top: Top,
    maxTokens: MaxTokens,
  },
  { additionalProperties: false },
);
type ContrastOptions = Static<typeof ContrastOptions>;

const NAME = 'logit-contrast';

export const logitContrast = defineProtocol<ContrastOptions>({
  name: NAME,
  version: 1,
  summary:
    'The strongest member writes, leaning towards what stronger members think more of than weaker ones.',
  source: 'contrastive decoding, arXiv 2210.15097; over a pool, arXiv 2601.21257',
  options: ContrastOptions,
  streams: true,
  tools: false,
  reuse: 'D',
  symmetric: () => false,
  needs: () => ['completions', 'logprobs', 'tokenIds'],
  describe: ({ maxTokens }, members) => mixShape(members, maxTokens),
  async *run(task, team, { k, lambda, plausible, top, maxTokens }, context) {
    if (team.length === 1) return yield* answerAlone(task, team, context);
    const mixture = contrastOf({ pairs: k, lambda, plausible });
    return yield* mixTokens(task, team, { name: NAME, mixture, top, maxTokens }, context);
  },
});
