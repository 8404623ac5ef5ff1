/**
 * debate: all members answer, read each other and answer again, then vote.
 *
 * Source: multiagent debate (Du et al. 2023, arXiv 2305.14325). In round t a member sees its own answer and the
 * others' of round t−1 only. Cost: n·rounds calls, path `rounds`. Coalition: its members debate; a coalition of
 * one is a plain call. A member that fails leaves the debate; when a whole round fails or the
 * budget cannot pay for one, the last one counts. In the last round who can no longer change the answer is stopped.
 * Loses when persuasive members are wrong. Streams nothing before the final vote.
 */
import Type, { type Static } from 'typebox';
import type { Call } from '../../contract/call.ts';
import type { Task } from '../../contract/task.ts';
import { askAll, askUntil, EarlyExit, wholeAnswer, type Contribution, type Settled } from './ask-all.ts';
import { isDecided, winner } from './ballot.ts';
import { openingCalls } from './opening.ts';
import { defineProtocol, type ProtocolContext } from './protocol.ts';
import { revisionCall } from './revision.ts';
import { answerAlone } from './single.ts';

const REVISE =
  'Compare them with your own answer, then give your best final answer, in the form that the request asks for.';

const DebateOptions = Type.Object(
  {
    rounds: Type.Integer({
      minimum: 1,
      maximum: 10,
      default: 2,
      description: 'Rounds, the first answers included.',
    }),
    ties: Type.Union([Type.Literal('priority'), Type.Literal('random')], {
      default: 'priority',
      description: 'priority: the earliest member’s answer wins a tie; random: one of the tied answers.',
    }),
    earlyExit: EarlyExit,
  },
  { additionalProperties: false },
);
type DebateOptions = Static<typeof DebateOptions>;

/** One member's next turn: its own words as the assistant's, the others' as the user's. */
function revision(
  task: Task,
  own: Contribution,
  all: readonly Contribution[],
  round: number,
  { random }: ProtocolContext,
): Call {
  const shown = all.filter((other) => other !== own);
  const slot = `round-${round}/${own.member.alias}`;
  return revisionCall(task, { slot, own, shown, instruction: REVISE, canReachClient: true }, random);
}

export const debate = defineProtocol<DebateOptions>({
  name: 'debate',
  version: 1,
  summary: 'All members answer, read each other, answer again, then vote.',
  source: 'multiagent debate, arXiv 2305.14325',
  options: DebateOptions,
  streams: false,
  tools: false,
  reuse: 'C',
  symmetric: ({ ties }) => ties === 'random',
  describe: ({ rounds }, members) => ({
    calls: members === 1 ? 1 : members * rounds,
    path: members === 1 ? 1 : rounds,
    widest: members,
  }),
  async *run(task, team, { rounds, ties, earlyExit }, context) {
    if (team.length === 1) return yield* answerAlone(task, team, context);
    const first = openingCalls(task, team, { stage: 'round-1', canReachClient: true });
    const hear = (calls: readonly Call[], round: number) => {
      const isSettled: Settled = (heard, underWay) => isDecided(calls, heard, underWay, task);
      return round === rounds ? askUntil(calls, isSettled, earlyExit, context) : askAll(calls, context);
    };
    const opening = await hear(first, 1);
    if (opening.contributions.length === 0) throw opening.failure();
    let latest = opening.contributions;
    for (let round = 2; round <= rounds && latest.length > 1; round++) {
      const standing = latest;
      if (context.left().calls < standing.length) break;
      const revised = await hear(
        standing.map((own) => revision(task, own, standing, round, context)),
        round,
      );
      if (revised.contributions.length === 0) break;
      latest = revised.contributions;
    }
    const won = winner(latest, task, ties, context.random);
    return yield* wholeAnswer(won.slot, won.answer);
  },
});
