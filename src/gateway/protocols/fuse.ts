/**
 * fuse: all members draft, one reads the drafts and writes the answer, streamed as it writes.
 *
 * Source: generative fusion (LLM-Blender's fuser, arXiv 2306.02561; Mixture-of-Agents with one layer, arXiv
 * 2406.04692). Cost: n+1 calls, path 2. Role: the fuser is the first of `fusers` in the coalition, else the
 * first member; should it fail before its first word, the next takes over, and when nobody can, the first draft in
 * that order is the answer. A coalition of one is a plain call; when a single draft arrives it is the answer, and
 * nobody is asked again, unless the client set a form that drafts are not held to. Loses when the fuser prefers a
 * fluent wrong draft to its own right one.
 */
import Type, { type Static } from 'typebox';
import type { Member } from '../../contract/plan.ts';
import type { Task } from '../../contract/task.ts';
import { askAll, callOf, isConstrained, speak, wholeAnswer, type Contribution } from './ask-all.ts';
import { peersBlock, withUserText } from './peers.ts';
import { defineProtocol, type ProtocolContext } from './protocol.ts';
import { roleOrder } from './role-order.ts';
import { roomFor } from './room.ts';
import { answerAlone } from './single.ts';

const FUSE = 'Now give the best final answer, in the form that the request asks for.';

const FuseOptions = Type.Object(
  {
    fusers: Type.Array(Type.String(), {
      default: [],
      description: 'Aliases in order of preference for the fuser’s role; then the pool’s order.',
    }),
    fuserDrafts: Type.Boolean({ default: true, description: 'Whether the fuser also writes a draft.' }),
  },
  { additionalProperties: false },
);
type FuseOptions = Static<typeof FuseOptions>;

function fusionBy(task: Task, drafts: readonly Contribution[], { random }: ProtocolContext) {
  return (member: Member) => {
    const room = roomFor(member, task.messages, task.sampling);
    return callOf(task, member, {
      slot: `fuse/${member.alias}`,
      purpose: 'fuse',
      messages: withUserText(task.messages, peersBlock(drafts, { instruction: FUSE, random, room })),
      reads: drafts.map(({ slot }) => slot),
      canReachClient: true,
      speaks: true,
      tools: true,
    });
  };
}

export const fuse = defineProtocol<FuseOptions>({
  name: 'fuse',
  version: 1,
  summary: 'All members draft; one reads the drafts and writes the answer.',
  source: 'generative fusion, arXiv 2306.02561 and 2406.04692',
  options: FuseOptions,
  streams: true,
  tools: true,
  reuse: 'B',
  symmetric: () => false,
  describe({ fuserDrafts }, members) {
    if (members === 1) return { calls: 1, path: 1, widest: 1 };
    const drafts = fuserDrafts ? members : members - 1;
    return { calls: drafts + 1, path: 2, widest: drafts };
  },
  async *run(task, team, { fusers, fuserDrafts }, context) {
    const order = roleOrder(team, fusers);
    if (team.length === 1) return yield* answerAlone(task, team, context);
    const drafters = fuserDrafts ? team : team.filter((member) => member !== order[0]);
    const round = await askAll(
      drafters.map((member) =>
        callOf(task, member, {
          slot: `draft/${member.alias}`,
          purpose: 'answer',
          messages: task.messages,
          canReachClient: false,
        }),
      ),
      context,
    );
    const drafts = round.contributions;
    const [only] = drafts;
    if (!only) {
      if (fuserDrafts) throw round.failure();
      return yield* answerAlone(task, order.slice(0, 1), context, round);
    }
    const isFree = !isConstrained(task);
    const failed = new Set(round.absences.map(({ member }) => member));
    // Whoever wrote the only draft has nothing to fuse.
    if (drafts.length === 1 && isFree) failed.add(only.member);
    const able = order.filter((member) => !failed.has(member));
    const answer = yield* speak(able, fusionBy(task, drafts, context), context, round);
    if (!answer) {
      // Nobody is left to fuse, or no time: the draft of the first in the order of the role stands.
      const [best] = order.flatMap((member) => drafts.filter((draft) => draft.member === member));
      if (!best || !isFree) throw round.failure();
      return yield* wholeAnswer(best.slot, best.answer);
    }
    return { ...answer, from: [...new Set([...answer.from, ...drafts.map(({ member }) => member.alias)])] };
  },
});
