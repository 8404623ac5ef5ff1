/**
 * anchor: one member answers, and a second is heard only where that is likelier to mend the answer than to spoil it.
 *
 * Source: the middle between routing and collaboration (COMED, 2026). The controller is ours, not the paper's. Cost: 1
 * to 3 calls, the anchor's further samples apart; path 3 at most. Role: the anchor is the first of `anchors` in the
 * coalition, else the first member; should it fail, the next is the anchor.
 *
 * 1. The anchor answers. How likely it is right is how sure it was, by its answer's log-probabilities or by the share of
 *    its samples that agree, and 1/2 where neither can be told.
 * 2. Hearing partner j gains (1 − right)·rescue − right·damage right answers. The partner that gains most, less the price
 *    of its call where a right answer has one, is asked the plain question; when none gains, the answer is kept.
 * 3. Where both state the same, the anchor's answer is kept. Else the anchor chooses between the two, anonymous and in an
 *    order of the prompt; where it names neither, the partner's is adopted, as the rates say that it is the better bet.
 *
 * Coalition: the anchor alone is a plain call. A partner that fails is replaced by the next that gains; when none is
 * left, the anchor's answer stands. Loses when the anchor is sure of what is wrong, and when rates are of other tasks.
 * Streams nothing before the decision.
 */
import Type, { type Static } from 'typebox';
import type { Call } from '../../contract/call.ts';
import type { Usage } from '../../contract/chat.ts';
import type { Member } from '../../contract/plan.ts';
import type { Task } from '../../contract/task.ts';
import { ratesOf } from './anchor-rates.ts';
import { askInto, Round, speak, wholeAnswer, type Contribution } from './ask-all.ts';
import { mostAgreeing, voteOf, winner } from './ballot.ts';
import { confidentCall, statedConfidence } from './confidence.ts';
import { choose, labelCall } from './label-step.ts';
import { aliasList, byAlias } from './member-options.ts';
import { hasSpoken, peersBlock, shuffled, withUserText } from './peers.ts';
import { defineProtocol, type ProtocolContext } from './protocol.ts';
import { roleOrder } from './role-order.ts';
import { roomFor } from './room.ts';

const QUESTION = 'Which of the two answers is right, or the better one?';
const LABELS = ['1', '2'];
/** How likely an answer is right about which nothing is known. */
const UNKNOWN = 0.5;
const PRIOR = { rescue: 0.5, damage: 0.1 };

const Probability = Type.Number({ minimum: 0, maximum: 1 });

const AnchorOptions = Type.Object(
  {
    anchors: aliasList('Aliases in order of preference for the anchor’s role; then the pool’s order.'),
    anchorSamples: Type.Integer({
      minimum: 1,
      maximum: 64,
      default: 1,
      description:
        'Answers asked of the anchor. With one, its log-probabilities tell how sure it was; with more, the share of ' +
        'them that agree.',
    }),
    rates: byAlias(
      Type.Object({ rescue: Probability, damage: Probability }, { additionalProperties: false }),
      {
        default: {},
        description:
          'By alias of a partner, of the anchor’s wrong answers the share that hearing it makes right (rescue), and ' +
          `of its right ones the share that it makes wrong (damage); ${PRIOR.rescue} and ${PRIOR.damage} for those ` +
          'not named.',
      },
    ),
    worthUsd: Type.Optional(
      Type.Number({
        exclusiveMinimum: 0,
        description:
          'What a right answer is worth in place of a wrong one. A partner’s call, taken to be as long as the ' +
          'anchor’s, must gain more than its price. Without it prices do not count.',
      }),
    ),
  },
  { additionalProperties: false },
);
type AnchorOptions = Static<typeof AnchorOptions>;

/** The call of a member's own answer: the same for anchors, partners and lone members, so that coalitions share it. */
function answerCall(task: Task, member: Member, { anchorSamples }: AnchorOptions, sample = 0): Call {
  const { confidence: _confidence, ...plain } = confidentCall(task, member, false);
  if (anchorSamples === 1) return { ...plain, confidence: true };
  return sample === 0 ? plain : { ...plain, sample, slot: `${plain.slot}/${sample}` };
}

interface Anchored {
  readonly own: Contribution;
  /** How likely it is right. */
  readonly right: number;
}

/** The first member that answers is the anchor. */
async function anchorOf(
  order: readonly Member[],
  task: Task,
  options: AnchorOptions,
  context: ProtocolContext,
  round: Round,
): Promise<Anchored | undefined> {
  const { anchorSamples } = options;
  for (const member of order) {
    if (round.absences.length > 0 && context.left().calls === 0) break;
    const calls = Array.from({ length: anchorSamples }, (_, sample) =>
      answerCall(task, member, options, sample),
    );
    const samples = await askInto(calls, context, round);
    if (samples.length === 0) continue;
    const own = winner(samples, task, 'priority', context.random);
    const share = mostAgreeing(samples, task) / anchorSamples || undefined;
    if (!hasSpoken(own)) return { own, right: 0 };
    return { own, right: (anchorSamples === 1 ? statedConfidence(own.answer) : share) ?? UNKNOWN };
  }
  return undefined;
}

function usd({ inputTokens, outputTokens }: Usage, { price }: Member): number {
  return (inputTokens * price.inputMicros + outputTokens * price.outputMicros) / 1e12;
}

/** Those from whom more is to be gained than they cost, the most first. */
function partnersOf(
  { own, right }: Anchored,
  others: readonly Member[],
  { rates, worthUsd = Infinity }: AnchorOptions,
): Member[] {
  const gains = others.map((member) => {
    const { rescue, damage } = rates[member.alias] ?? PRIOR;
    const price = usd(own.answer.usage, member) / worthUsd;
    return { member, gain: (1 - right) * rescue - right * damage - price };
  });
  const worth = gains.filter(({ gain }) => gain > 0).toSorted((a, b) => b.gain - a.gain);
  return worth.map(({ member }) => member);
}

/** The one of two answers that counts. */
async function settle(
  own: Contribution,
  other: Contribution,
  task: Task,
  context: ProtocolContext,
  round: Round,
): Promise<Contribution> {
  if (!hasSpoken(own)) return other;
  const vote = voteOf(own.answer.message.text, task);
  if (vote !== undefined && vote === voteOf(other.answer.message.text, task)) return own;
  const both = [own, other];
  const { random } = context;
  const makeCall = (anchor: Member) => {
    const room = roomFor(anchor, task.messages, task.sampling);
    return labelCall(task, anchor, {
      slot: `choose/${anchor.alias}`,
      purpose: 'judge',
      messages: withUserText(task.messages, peersBlock(both, { instruction: QUESTION, random, room })),
      labels: LABELS,
      reads: both.map(({ slot }) => slot),
    });
  };
  const { label, by } = await choose([own.member], makeCall, '', context, round);
  return (by === 'fallback' ? undefined : shuffled(both, random)[LABELS.indexOf(label)]) ?? other;
}

export const anchor = defineProtocol<AnchorOptions>({
  name: 'anchor',
  version: 1,
  summary: 'One answers; a second is heard where that is likelier to mend than to spoil.',
  source: 'COMED (2026), with a controller of our own',
  options: AnchorOptions,
  streams: false,
  tools: false,
  reuse: 'D',
  symmetric: () => false,
  fit: {
    samples: () => 1,
    fit(options, rows, aliases) {
      const [first, ...partners] = roleOrder(
        aliases.map((alias) => ({ alias })),
        options.anchors,
      ).map(({ alias }) => alias);
      return { ...options, rates: first === undefined ? {} : ratesOf(rows, first, partners) };
    },
  },
  describe({ anchorSamples }, members) {
    if (members === 1) return { calls: 1, path: 1, widest: 1 };
    return { calls: anchorSamples + 2, path: 3, widest: anchorSamples };
  },
  async *run(task, team, options, context) {
    const round = new Round();
    if (team.length === 1) {
      const alone = (member: Member) => ({ ...answerCall(task, member, options), speaks: true });
      const answer = yield* speak(team, alone, context, round);
      if (!answer) throw round.failure();
      return answer;
    }
    const anchored = await anchorOf(roleOrder(team, options.anchors), task, options, context, round);
    if (!anchored) throw round.failure();
    const { own } = anchored;
    context.offer(own);
    const failed = new Set(round.absences.map(({ member }) => member));
    const others = team.filter((member) => member !== own.member && !failed.has(member));
    let chosen = own;
    for (const partner of partnersOf(anchored, others, options)) {
      if (round.absences.length > 0 && context.left().calls === 0) break;
      const [other] = await askInto([answerCall(task, partner, options)], context, round);
      if (!other || !hasSpoken(other)) continue;
      chosen = await settle(own, other, task, context, round);
      break;
    }
    return yield* wholeAnswer(chosen.slot, chosen.answer);
  },
});
