/**
 * refine: all members answer, rewrite their answers having read the others', and one writes the final one.
 *
 * Source: multiagent refinement as in the MoCo toolkit (arXiv 2601.21257). In round t a member sees its own answer, as
 * its own, and the others' of round t−1 only. Cost: n·rounds+1 calls, path rounds+1. Role: the summariser is the first
 * of `summarisers` in the coalition, else the first member; should it fail before its first word, the next takes over,
 * and when nobody can, the latest answer of the first in that order stands. Coalition: its members are every round; a
 * coalition of one is a plain call. A member that fails leaves the rounds after it; when a whole round fails, the one
 * before it counts, and when the budget cannot pay for one and the summariser, it is left out. With one round it is
 * `fuse` with every member drafting. It differs from `debate` in its end, which writes instead of counting, and from
 * `mixture` in that a member knows which answer is its own. Loses when members give up right answers to agree with the
 * others, and when the summariser prefers its own words.
 */
import Type, { type Static } from 'typebox';
import { askAll, askInto } from './ask-all.ts';
import { aliasList } from './member-options.ts';
import { openingCalls } from './opening.ts';
import { defineProtocol } from './protocol.ts';
import { revisionCall } from './revision.ts';
import { roleOrder } from './role-order.ts';
import { answerAlone } from './single.ts';
import { synthesise } from './synthesis.ts';

const REFINE =
  'Compare them with your own answer. Then write a better one: keep what is right in yours, put right what is not, ' +
  'and take over what the others have and yours lacks. Use the form that the request asks for.';
const CONCLUDE =
  'They have read each other already. Write the one final answer to the request from them, complete and in the form ' +
  'that the request asks for.';

const RefineOptions = Type.Object(
  {
    rounds: Type.Integer({
      minimum: 1,
      maximum: 10,
      default: 2,
      description: 'Rounds, the first answers included.',
    }),
    summarisers: aliasList(
      'Aliases in order of preference for the summariser’s role; then the pool’s order.',
    ),
  },
  { additionalProperties: false },
);
type RefineOptions = Static<typeof RefineOptions>;

export const refine = defineProtocol<RefineOptions>({
  name: 'refine',
  version: 1,
  summary: 'All answer and rewrite their answers having read the others’; one writes the final answer.',
  source: 'multiagent refinement, arXiv 2601.21257',
  options: RefineOptions,
  streams: true,
  tools: true,
  reuse: 'C',
  symmetric: () => false,
  describe: ({ rounds }, members) =>
    members === 1
      ? { calls: 1, path: 1, widest: 1 }
      : { calls: members * rounds + 1, path: rounds + 1, widest: members },
  async *run(task, team, { rounds, summarisers }, context) {
    if (team.length === 1) return yield* answerAlone(task, team, context);
    const first = openingCalls(task, team, { stage: 'round-1', canReachClient: false });
    const round = await askAll(first, context);
    let drafts = round.contributions;
    if (drafts.length === 0) throw round.failure();
    for (let turn = 2; turn <= rounds && drafts.length > 1; turn++) {
      const standing = drafts;
      if (context.left().calls <= standing.length) break;
      const calls = standing.map((own) => {
        const shown = standing.filter((other) => other !== own);
        const slot = `round-${turn}/${own.member.alias}`;
        const asked = { slot, own, shown, instruction: REFINE, canReachClient: false };
        return revisionCall(task, asked, context.random);
      });
      const refined = await askInto(calls, context, round);
      if (refined.length === 0) break;
      drafts = [...refined];
    }
    const order = roleOrder(team, summarisers);
    const asked = { stage: 'conclude', purpose: 'fuse', instruction: CONCLUDE, order, drafts } as const;
    return yield* synthesise(task, asked, context, round);
  },
});
