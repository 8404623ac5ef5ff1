/** Several label steps for one role: its holder is asked all of them at once. */
import { isAbsent, type Call } from '../../contract/call.ts';
import type { Member } from '../../contract/plan.ts';
import type { Round } from './ask-all.ts';
import { decisionOf, type Decision } from './label-step.ts';
import type { ProtocolContext } from './protocol.ts';

/**
 * Puts all questions to the first of `order`; those that it fails to answer go to the next, and its absence is added to
 * `round`. Only answers with a label are in the result: what is none is no decision, and nobody else is asked.
 *
 * @param order without members that have failed before
 */
export async function decideAll<Q>(
  questions: readonly Q[],
  order: readonly Member[],
  makeCall: (member: Member, question: Q) => Call,
  { ask, left }: Pick<ProtocolContext, 'ask' | 'left'>,
  round: Round,
): Promise<Map<Q, Decision>> {
  const decisions = new Map<Q, Decision>();
  let open = questions;
  for (const [tried, member] of order.entries()) {
    if (open.length === 0 || (tried > 0 && left().calls === 0)) break;
    const asked = open.map((question) => ({ question, reply: ask(makeCall(member, question)) }));
    const unanswered: Q[] = [];
    for (const { question, reply } of asked) {
      const result = await reply.answer;
      if (isAbsent(result)) {
        unanswered.push(question);
        round.add(reply, result);
      } else {
        const decision = decisionOf(reply.call, result, '');
        if (decision.by !== 'fallback') decisions.set(question, decision);
      }
    }
    open = unanswered;
  }
  return decisions;
}
