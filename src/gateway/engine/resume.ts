/**
 * A run that goes on where an earlier one had called tools: the member that called them is asked again, with what it had
 * read then and the results. Should it fail before its first word, the protocol runs from its start after all.
 */
import type { Answer } from '../../contract/call.ts';
import type { Resumption } from '../../contract/capabilities.ts';
import type { Part } from '../../contract/part.ts';
import { teamOf, type Plan } from '../../contract/plan.ts';
import type { Task } from '../../contract/task.ts';
import { callOf, Round, speak } from '../protocols/ask-all.ts';
import type { Protocol, ProtocolContext } from '../protocols/protocol.ts';

export async function* resume(
  { messages, member, from }: Resumption,
  protocol: Protocol,
  plan: Plan,
  task: Task,
  context: ProtocolContext,
): AsyncGenerator<Part, Answer> {
  const speaker = teamOf(plan).filter(({ alias }) => alias === member);
  const answer = yield* speak(
    speaker,
    (one) =>
      callOf(task, one, {
        slot: `resume/${one.alias}`,
        purpose: 'act',
        messages,
        canReachClient: true,
        speaks: true,
        tools: true,
      }),
    context,
    new Round(),
  );
  if (answer) return { ...answer, from: [...new Set([...answer.from, ...from])] };
  return yield* protocol.run(task, teamOf(plan), plan.options, context);
}
