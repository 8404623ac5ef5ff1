/**
 * single: one member answers, streamed through as it speaks.
 *
 * Source: the baseline of every comparison. Cost: 1 call, path 1. Role: the first member of the coalition
 * answers; should it fail before its first word, the next takes over. Loses when no member is good at the task.
 */
import Type from 'typebox';
import type { Answer, Call } from '../../contract/call.ts';
import type { Part } from '../../contract/part.ts';
import type { Member } from '../../contract/plan.ts';
import type { Task } from '../../contract/task.ts';
import { callOf, Round, speak, speakersOf } from './ask-all.ts';
import { defineProtocol, type ProtocolContext } from './protocol.ts';

/** The plain call: the conversation as the client sent it. Every protocol's form for a coalition of one. */
export function plainCall(task: Task, member: Member): Call {
  const call = callOf(task, member, {
    slot: `answer/${member.alias}`,
    purpose: 'answer',
    messages: task.messages,
    canReachClient: true,
    speaks: true,
    tools: true,
  });
  const { passThrough, route } = task;
  return passThrough ? { ...call, extra: passThrough, ...(route && { route }) } : call;
}

/** @param round holds who has failed before; all of them are named when nobody answers */
export async function* answerAlone(
  task: Task,
  order: readonly Member[],
  context: ProtocolContext,
  round = new Round(),
): AsyncGenerator<Part, Answer> {
  const speakers = speakersOf(order, task);
  const answer = yield* speak(speakers, (member) => plainCall(task, member), context, round);
  if (!answer) throw round.failure();
  return answer;
}

export const single = defineProtocol({
  name: 'single',
  version: 1,
  summary: 'One member answers; the next takes over if it fails.',
  source: 'baseline',
  options: Type.Object({}, { additionalProperties: false }),
  streams: true,
  tools: true,
  reuse: 'A',
  symmetric: () => false,
  describe: () => ({ calls: 1, path: 1, widest: 1 }),
  run: (task, team, _options, context) => answerAlone(task, team, context),
});
