/**
 * route: one member reads what the operator says of each and names who should answer; that one answers, streamed.
 *
 * Source: prompt routing by descriptions (the baseline of MoCo, arXiv 2601.21257). Cost: 2 calls, path 2. Role: the
 * router is the first of `routers` in the coalition, else the first member; should it fail, the next routes among those
 * that are left, and whoever is alone then answers unasked. Whoever is named and fails is replaced by the next by the
 * labels' probabilities, where the endpoint told them, then in the pool's order. What is no label gives the router
 * itself. The list is anonymous, and in an order that depends on the prompt, so that no place in it is favoured.
 * Coalition: only its members are listed; a coalition of one is a plain call. Loses when the router cannot tell what is
 * hard for whom, and when the descriptions do not say it.
 */
import Type, { type Static } from 'typebox';
import type { Call } from '../../contract/call.ts';
import type { Member } from '../../contract/plan.ts';
import type { Task } from '../../contract/task.ts';
import { mayCallTools, Round } from './ask-all.ts';
import { choose, labelCall } from './label-step.ts';
import { described, labelAt, listOf, ranked } from './listing.ts';
import { aliasList } from './member-options.ts';
import { withUserText } from './peers.ts';
import { defineProtocol } from './protocol.ts';
import { roleOrder } from './role-order.ts';
import { answerAlone } from './single.ts';

const INTRODUCTION =
  'Do not answer this request yet: choose who is to answer it. These assistants are at hand:';
const QUESTION = 'Which of them is the likeliest to answer the request well?';

const RouteOptions = Type.Object(
  {
    routers: aliasList('Aliases in order of preference for the router’s role; then the pool’s order.'),
    showPrices: Type.Boolean({
      default: false,
      description: 'Whether the router sees each member’s price beside its description.',
    }),
  },
  { additionalProperties: false },
);
type RouteOptions = Static<typeof RouteOptions>;

function routeCall(task: Task, router: Member, listed: readonly Member[], showPrices: boolean): Call {
  const lines = listed.map((member, index) => `${labelAt(index)}. ${described(member, showPrices)}`);
  return labelCall(task, router, {
    slot: `route/${router.alias}`,
    purpose: 'route',
    messages: withUserText(task.messages, [INTRODUCTION, ...lines, QUESTION].join('\n')),
    labels: lines.map((_line, index) => labelAt(index)),
    probabilities: true,
  });
}

export const route = defineProtocol<RouteOptions>({
  name: 'route',
  version: 1,
  summary: 'One member reads what each is good at and names who answers.',
  source: 'prompt routing, arXiv 2601.21257',
  options: RouteOptions,
  streams: true,
  tools: true,
  reuse: 'B',
  showsDescriptions: true,
  showsPrices: ({ showPrices }) => showPrices,
  symmetric: () => false,
  describe: (_options, members) => {
    const calls = members === 1 ? 1 : 2;
    return { calls, path: calls, widest: 1 };
  },
  async *run(task, team, { routers, showPrices }, context) {
    // Whoever is named, the router itself for want of a name, is to call the client's tools where there are any.
    const may = task.tools?.length ? team.filter(mayCallTools) : team;
    const order = roleOrder(may, routers);
    const list = listOf(may, context.random);
    const round = new Round();
    const left = (members: readonly Member[]) =>
      members.filter((member) => round.absences.every((absent) => absent.member !== member));
    const ask = (router: Member) => routeCall(task, router, left(list), showPrices);
    if (list.length < 2) return yield* answerAlone(task, team, context);
    // The last is asked nothing: were it reached, it would be alone.
    const decision = await choose(order.slice(0, -1), ask, '', context, round);
    return yield* answerAlone(task, ranked(left(team), left(list), decision), context, round);
  },
});
