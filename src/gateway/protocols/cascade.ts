/**
 * cascade: members answer in turn, from the weakest to the strongest, until an answer is good enough.
 *
 * Source: language-model cascades (FrugalGPT, Chen et al. 2023, arXiv 2305.05176; the measure as in MoCo, arXiv
 * 2601.21257, but over the stated answer and with each member's own threshold). Cost: n calls at most by
 * log-probabilities and 2n−1 by asking, and as long a path; 1 or 2 where the first is kept. Order: `order`, weakest
 * first, then whoever it does not name in the pool's order reversed. An answer is kept when the member was sure of it,
 * or, where that cannot be told, when the member itself says so in a label step; what is no label is not kept. The last
 * is not questioned, and streams. Coalition: a part of the order, with the same thresholds; a coalition of one is a
 * plain call. A member that fails is skipped; should the last fail, the last answer before it stands. Loses when weak
 * members are sure of what is wrong, and in time when most questions are hard.
 */
import Type, { type Static } from 'typebox';
import type { Call } from '../../contract/call.ts';
import type { Member } from '../../contract/plan.ts';
import type { Task } from '../../contract/task.ts';
import { askInto, Round, speak, wholeAnswer, type Contribution } from './ask-all.ts';
import { thresholdsOf } from './cascade-thresholds.ts';
import { confidentCall, statedConfidence } from './confidence.ts';
import { choose, labelCall } from './label-step.ts';
import { aliasList, byAlias } from './member-options.ts';
import { hasSpoken, spokenBy, withUserText } from './peers.ts';
import { defineProtocol, type ProtocolContext } from './protocol.ts';
import { roleOrder } from './role-order.ts';
import { plainCall } from './single.ts';

const KEEP = 'yes';
const PASS_ON = 'no';
const QUESTION =
  `Is that answer to be given as it is? Say ${KEEP} only when you are confident that it is right. ` +
  `After ${PASS_ON}, somebody more able answers in your place.`;
const THRESHOLD = 0.9;

const CascadeOptions = Type.Object(
  {
    order: aliasList('Aliases from the weakest to the strongest; then the pool’s order reversed.'),
    mode: Type.Union([Type.Literal('logprob'), Type.Literal('ask')], {
      default: 'logprob',
      description:
        'logprob: an answer is kept when its tokens were likely enough; where an endpoint does not tell, or nothing ' +
        'is stated, the member is asked. ask: the member is always asked whether its answer should be kept.',
    }),
    thresholds: byAlias(Type.Number({ minimum: 0, maximum: 1 }), {
      default: {},
      description:
        `By alias, the confidence from which an answer is kept: the mean over the stated answer’s tokens of the ` +
        `likeliest token’s share among the five likeliest. Take it from the member’s own data, as confidences of ` +
        `different models do not compare; ${THRESHOLD} for those not named.`,
    }),
  },
  { additionalProperties: false },
);
type CascadeOptions = Static<typeof CascadeOptions>;

function keepCall(task: Task, own: Contribution): Call {
  const answered = [...task.messages, { role: 'assistant' as const, content: spokenBy(own) }];
  return labelCall(task, own.member, {
    slot: `keep/${own.member.alias}`,
    purpose: 'judge',
    messages: withUserText(answered, QUESTION),
    labels: [KEEP, PASS_ON],
    reads: [own.slot],
  });
}

async function isKept(
  task: Task,
  own: Contribution,
  { mode, thresholds }: CascadeOptions,
  context: ProtocolContext,
  round: Round,
): Promise<boolean> {
  const confidence = mode === 'logprob' ? statedConfidence(own.answer) : undefined;
  if (confidence !== undefined) return confidence >= (thresholds[own.member.alias] ?? THRESHOLD);
  const { label } = await choose([own.member], () => keepCall(task, own), PASS_ON, context, round);
  return label === KEEP;
}

export const cascade = defineProtocol<CascadeOptions>({
  name: 'cascade',
  version: 1,
  summary: 'Members answer in turn, weakest first, until one is sure enough.',
  source: 'language-model cascades, arXiv 2305.05176',
  options: CascadeOptions,
  streams: true,
  tools: false,
  reuse: 'A',
  symmetric: () => false,
  fit: {
    samples: () => 1,
    fit(options, rows, aliases) {
      const team = aliases.map((alias) => ({ alias }));
      const order = roleOrder(team.toReversed(), options.order).map(({ alias }) => alias);
      return { ...options, thresholds: thresholdsOf(rows, order) };
    },
  },
  describe: (_options, members) => ({ calls: 2 * members - 1, path: 2 * members - 1, widest: 1 }),
  async *run(task, team, options, context) {
    const order = roleOrder(team.toReversed(), options.order);
    const answerBy = (member: Member, speaks: boolean) =>
      options.mode === 'logprob'
        ? confidentCall(task, member, speaks)
        : { ...plainCall(task, member), speaks };
    const round = new Round();
    let best: Contribution | undefined;
    for (const member of order.slice(0, -1)) {
      if (round.absences.length > 0 && context.left().calls === 0) break;
      const [own] = await askInto([answerBy(member, false)], context, round);
      if (!own || !hasSpoken(own)) continue;
      best = own;
      context.offer(own);
      if (await isKept(task, own, options, context, round)) return yield* wholeAnswer(own.slot, own.answer);
    }
    const answer = yield* speak(order.slice(-1), (member) => answerBy(member, true), context, round);
    if (answer) return answer;
    if (!best) throw round.failure();
    return yield* wholeAnswer(best.slot, best.answer);
  },
});
