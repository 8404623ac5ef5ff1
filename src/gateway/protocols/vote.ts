/**
 * vote: all members answer, the most common answer wins.
 *
 * Source: majority voting; with one member and several samples it is self-consistency (Wang et al. 2022,
 * arXiv 2203.11171). Cost: n·samples calls, path 1; who can no longer change the answer is stopped. Coalition: its members vote; a coalition of one with one
 * sample is a plain call; two members agree or tie. Loses when errors are shared, or when weak members outvote
 * a strong one. Streams nothing before the decision: then the winner's whole text comes at once.
 */
import Type, { type Static } from 'typebox';
import { askUntil, EarlyExit, wholeAnswer, type Settled } from './ask-all.ts';
import { isDecided, winner } from './ballot.ts';
import { openingCalls } from './opening.ts';
import { defineProtocol } from './protocol.ts';
import { answerAlone } from './single.ts';

const VoteOptions = Type.Object(
  {
    samples: Type.Integer({
      minimum: 1,
      maximum: 64,
      default: 1,
      description: 'Answers asked of each member.',
    }),
    ties: Type.Union([Type.Literal('priority'), Type.Literal('random')], {
      default: 'priority',
      description: 'priority: the earliest member’s answer wins a tie; random: one of the tied answers.',
    }),
    earlyExit: EarlyExit,
  },
  { additionalProperties: false },
);
type VoteOptions = Static<typeof VoteOptions>;

export const vote = defineProtocol<VoteOptions>({
  name: 'vote',
  version: 1,
  summary: 'All members answer; the most common answer wins.',
  source: 'majority vote; self-consistency, arXiv 2203.11171',
  options: VoteOptions,
  streams: false,
  tools: false,
  reuse: 'A',
  symmetric: ({ ties }) => ties === 'random',
  describe: ({ samples }, members) => ({ calls: members * samples, path: 1, widest: members * samples }),
  async *run(task, team, { samples, ties, earlyExit }, context) {
    if (team.length === 1 && samples === 1) return yield* answerAlone(task, team, context);
    const calls = openingCalls(task, team, { stage: 'answer', samples, canReachClient: true });
    const isSettled: Settled = (heard, underWay) => isDecided(calls, heard, underWay, task);
    const round = await askUntil(calls, isSettled, earlyExit, context);
    if (round.contributions.length === 0) throw round.failure();
    const won = winner(round.contributions, task, ties, context.random);
    return yield* wholeAnswer(won.slot, won.answer);
  },
});
