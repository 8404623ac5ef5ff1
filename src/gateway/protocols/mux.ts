/**
 * mux: every member answers several times, and the member that agrees most with itself is heard.
 *
 * Source: SLM-MUX (arXiv 2510.05077). Cost: n·samples calls, path 1; who can no longer change the answer is stopped. A
 * member's share is that of its samples, the failed and the unreadable included, that state its most common answer.
 * Where it is calibrated, the probability of being right at that share counts in its place, as a weak model can be sure
 * of what is wrong. Coalition: its members compete; a coalition of one keeps its samples, which is self-consistency.
 * Loses where nothing is stated (all shares are 0, and the tie rule decides), near temperature 0 (all are 1), and when
 * two members that are right seldom agree with themselves. Streams nothing before the decision.
 */
import Type, { type Static } from 'typebox';
import type { Call } from '../../contract/call.ts';
import type { Member } from '../../contract/plan.ts';
import type { Task } from '../../contract/task.ts';
import { askUntil, EarlyExit, wholeAnswer, type Contribution, type Settled } from './ask-all.ts';
import { isDecided, mostAgreeing, winner } from './ballot.ts';
import { byAlias } from './member-options.ts';
import { calibrationOf } from './mux-calibration.ts';
import { openingCalls } from './opening.ts';
import { defineProtocol, type ProtocolContext } from './protocol.ts';

/** Below this, probabilities are equal. */
const EQUAL = 1e-9;

const Probability = Type.Number({ minimum: 0, maximum: 1 });

const MuxOptions = Type.Object(
  {
    samples: Type.Integer({
      minimum: 2,
      maximum: 64,
      default: 5,
      description: 'Answers asked of each member, at a temperature at which they can differ.',
    }),
    calibration: byAlias(Type.Array(Probability, { minItems: 1 }), {
      default: {},
      description:
        'By alias, the probability that the member’s most common answer is right when 1, 2, … of its samples state ' +
        'it: as many numbers as there are samples. For those not named, it is taken to be the share itself.',
    }),
    ties: Type.Union([Type.Literal('priority'), Type.Literal('random')], {
      default: 'priority',
      description: 'priority: of equal members, or answers, the earliest is heard; random: one of them.',
    }),
    earlyExit: EarlyExit,
  },
  { additionalProperties: false },
);
type MuxOptions = Static<typeof MuxOptions>;

/** How likely a member is right when this many of its samples agree. */
function trust({ alias }: Member, agreeing: number, { samples, calibration }: MuxOptions): number {
  if (agreeing === 0) return 0;
  const fitted = calibration[alias];
  // Fitted with another number of samples, the next share that it knows counts.
  return fitted ? (fitted[Math.ceil((agreeing * fitted.length) / samples) - 1] ?? 0) : agreeing / samples;
}

/** Members in the order in which ties go to them. */
function ranked(team: readonly Member[], { ties }: MuxOptions, { random }: ProtocolContext): Member[] {
  if (ties === 'priority') return [...team];
  const keys = new Map(team.map((member) => [member, random(`member/${member.alias}`)]));
  return team.toSorted((a, b) => (keys.get(a) ?? 0) - (keys.get(b) ?? 0));
}

/** What the member said that is heard; nothing when nobody answered. */
function mostTrusted(
  order: readonly Member[],
  contributions: readonly Contribution[],
  task: Task,
  options: MuxOptions,
): Contribution[] {
  let best: { own: Contribution[]; trusted: number } = { own: [], trusted: -Infinity };
  for (const member of order) {
    const own = contributions.filter((one) => one.member === member);
    const trusted = own.length === 0 ? -Infinity : trust(member, mostAgreeing(own, task), options);
    if (trusted > best.trusted + EQUAL) best = { own, trusted };
  }
  return best.own;
}

/**
 * Whether it is certain who will be heard, and with which words: its least possible trust is above the greatest of all
 * others, or equal to that of those whom it precedes.
 */
function settledBy(
  order: readonly Member[],
  calls: readonly Call[],
  task: Task,
  options: MuxOptions,
): Settled {
  return (heard, underWay) => {
    const standings = order.map((member) => {
      const asked = calls.filter((call) => call.member === member);
      const own = heard.filter((one) => one.member === member);
      const open = underWay.filter((call) => call.member === member);
      const least = mostAgreeing(own, task);
      const possible = Array.from({ length: open.length + 1 }, (_, more) =>
        trust(member, least + more, options),
      );
      const isRead = open.length === 0 || isDecided(asked, own, open, task);
      return {
        isReady: own.length > 0 && isRead,
        low: Math.min(...possible),
        high: Math.max(...possible),
      };
    });
    return standings.some(
      ({ isReady, low }, place) =>
        isReady &&
        standings.every(
          ({ high }, other) => other === place || (other < place ? high < low - EQUAL : high <= low + EQUAL),
        ),
    );
  };
}

export const mux = defineProtocol<MuxOptions>({
  name: 'mux',
  version: 1,
  summary: 'All answer several times; the one that agrees most with itself is heard.',
  source: 'SLM-MUX, arXiv 2510.05077',
  options: MuxOptions,
  streams: false,
  tools: false,
  reuse: 'A',
  symmetric: ({ ties }) => ties === 'random',
  fit: {
    samples: ({ samples }) => samples,
    fit: (options, rows, aliases) => ({
      ...options,
      calibration: calibrationOf(rows, aliases, options.samples),
    }),
  },
  describe: ({ samples }, members) => ({ calls: members * samples, path: 1, widest: members * samples }),
  async *run(task, team, options, context) {
    const { samples, ties, earlyExit } = options;
    const calls = openingCalls(task, team, { stage: 'answer', samples, canReachClient: true });
    const order = ranked(team, options, context);
    const isSettled = settledBy(order, calls, task, options);
    const round = await askUntil(calls, isSettled, earlyExit, context);
    const best = mostTrusted(order, round.contributions, task, options);
    if (best.length === 0) throw round.failure();
    const heard = winner(best, task, ties, context.random);
    return yield* wholeAnswer(heard.slot, heard.answer);
  },
});
