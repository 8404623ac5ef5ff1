/**
 * shortest: all members answer, the shortest answer wins.
 *
 * Source: short-1@k (Hassid et al. 2025, arXiv 2505.17813), where of k chains of thought the one that ends first is
 * taken; here all end, and their length in characters counts, so that a fast endpoint has no advantage. Cost: n calls,
 * path 1. Coalition: its members answer; a coalition of one is a plain call. Role: none; of answers of one length the
 * earliest member's wins. Loses when a member is short because it gives up. Says its answer in one piece.
 */
import Type from 'typebox';
import { askAll, callOf, wholeAnswer } from './ask-all.ts';
import { defineProtocol } from './protocol.ts';
import { answerAlone } from './single.ts';

export const shortest = defineProtocol({
  name: 'shortest',
  version: 1,
  summary: 'All members answer; the shortest answer wins.',
  source: 'short-1@k, arXiv 2505.17813',
  options: Type.Object({}, { additionalProperties: false }),
  streams: false,
  tools: false,
  reuse: 'A',
  symmetric: () => false,
  describe: (_options, members) => ({ calls: members, path: 1, widest: members }),
  async *run(task, team, _options, context) {
    if (team.length === 1) return yield* answerAlone(task, team, context);
    const calls = team.map((member) =>
      callOf(task, member, {
        slot: `answer/${member.alias}`,
        purpose: 'answer',
        messages: task.messages,
        canReachClient: true,
      }),
    );
    const round = await askAll(calls, context);
    const [first] = round.contributions.toSorted(
      (a, b) => a.answer.message.text.length - b.answer.message.text.length,
    );
    if (!first) throw round.failure();
    return yield* wholeAnswer(first.slot, first.answer);
  },
});
