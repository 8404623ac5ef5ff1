/**
 * mixture: layers of proposers, each of which reads all that the layer before wrote, then an aggregator.
 *
 * Source: Mixture-of-Agents (Wang et al. 2024, arXiv 2406.04692). The first layer answers the request; in every later
 * layer each member reads all answers of the layer before, its own among them and not marked as such, and writes a
 * better one; the aggregator reads the last layer and speaks. Cost: n·layers+1 calls, path layers+1. Role: the
 * aggregator is the first of `aggregators` in the coalition, else the first member; should it fail before its first
 * word, the next takes over, and when nobody can, the answer of the first in that order in the last layer stands.
 * Coalition: its members are every layer; a coalition of one is a plain call. A member that fails leaves the layers
 * after it; when a whole layer fails, the one before it counts, and when the budget cannot pay for one and the
 * aggregator, it is left out. With one layer it is `fuse` with every member drafting. Loses when later layers, which
 * cannot tell their own answer from the others', drift to the most fluent one, and when texts outgrow the windows.
 */
import Type, { type Static } from 'typebox';
import type { Call } from '../../contract/call.ts';
import type { Member } from '../../contract/plan.ts';
import type { Task } from '../../contract/task.ts';
import { askAll, callOf, type Contribution } from './ask-all.ts';
import { aliasList } from './member-options.ts';
import { openingCalls } from './opening.ts';
import { peersBlock, withUserText } from './peers.ts';
import { defineProtocol, type ProtocolContext } from './protocol.ts';
import { roleOrder } from './role-order.ts';
import { roomFor } from './room.ts';
import { answerAlone } from './single.ts';
import { synthesise } from './synthesis.ts';

const IMPROVE =
  'Weigh them against each other: keep what holds up, put right what does not. Then write one answer of your own ' +
  'that is better than each of them, in the form that the request asks for.';

const MixtureOptions = Type.Object(
  {
    layers: Type.Integer({
      minimum: 1,
      maximum: 10,
      default: 1,
      description: 'Layers of proposers before the aggregator.',
    }),
    aggregators: aliasList(
      'Aliases in order of preference for the aggregator’s role; then the pool’s order.',
    ),
  },
  { additionalProperties: false },
);
type MixtureOptions = Static<typeof MixtureOptions>;

function proposal(
  task: Task,
  member: Member,
  before: readonly Contribution[],
  layer: number,
  { random }: ProtocolContext,
): Call {
  const room = roomFor(member, task.messages, task.sampling);
  return callOf(task, member, {
    slot: `layer-${layer}/${member.alias}`,
    purpose: 'revise',
    messages: withUserText(task.messages, peersBlock(before, { instruction: IMPROVE, random, room })),
    reads: before.map(({ slot }) => slot),
    canReachClient: false,
  });
}

export const mixture = defineProtocol<MixtureOptions>({
  name: 'mixture',
  version: 1,
  summary: 'Layers of members that read all of the layer before; one aggregates.',
  source: 'Mixture-of-Agents, arXiv 2406.04692',
  options: MixtureOptions,
  streams: true,
  tools: true,
  reuse: 'C',
  symmetric: () => false,
  describe: ({ layers }, members) =>
    members === 1
      ? { calls: 1, path: 1, widest: 1 }
      : { calls: members * layers + 1, path: layers + 1, widest: members },
  async *run(task, team, { layers, aggregators }, context) {
    if (team.length === 1) return yield* answerAlone(task, team, context);
    const first = openingCalls(task, team, { stage: 'layer-1', canReachClient: false });
    const round = await askAll(first, context);
    let drafts = round.contributions;
    if (drafts.length === 0) throw round.failure();
    for (let layer = 2; layer <= layers && drafts.length > 1; layer++) {
      const before = drafts;
      if (context.left().calls <= before.length) break;
      const calls = before.map(({ member }) => proposal(task, member, before, layer, context));
      const { contributions, absences } = await askAll(calls, context);
      round.absences.push(...absences);
      if (contributions.length === 0) break;
      drafts = contributions;
    }
    const order = roleOrder(team, aggregators);
    const asked = { stage: 'aggregate', purpose: 'fuse', instruction: IMPROVE, order, drafts } as const;
    return yield* synthesise(task, asked, context, round);
  },
});
