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
import { askAll } from './ask-all.ts';
import { aliasList } from './member-options.ts';
import { openingCalls } from './opening.ts';
import { defineProtocol } from './protocol.ts';
import { roleOrder } from './role-order.ts';
import { answerAlone } from './single.ts';
import { synthesise } from './synthesis.ts';

const FUSE = 'Now give the best final answer, in the form that the request asks for.';

const FuseOptions = Type.Object(
  {
    fusers: aliasList('Aliases in order of preference for the fuser’s role; then the pool’s order.'),
    fuserDrafts: Type.Boolean({ default: true, description: 'Whether the fuser also writes a draft.' }),
  },
  { additionalProperties: false },
);
type FuseOptions = Static<typeof FuseOptions>;

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
    const calls = openingCalls(task, drafters, { stage: 'draft', canReachClient: false });
    const round = await askAll(calls, context);
    const drafts = round.contributions;
    if (drafts.length === 0) {
      if (fuserDrafts) throw round.failure();
      return yield* answerAlone(task, order.slice(0, 1), context, round);
    }
    return yield* synthesise(
      task,
      { stage: 'fuse', purpose: 'fuse', instruction: FUSE, order, drafts },
      context,
      round,
    );
  },
});
