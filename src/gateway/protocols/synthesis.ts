/** The last step of many protocols: one member reads what the others wrote and speaks to the client. */
import type { Answer, Call, Purpose } from '../../contract/call.ts';
import type { Part } from '../../contract/part.ts';
import type { Member } from '../../contract/plan.ts';
import type { Task } from '../../contract/task.ts';
import {
  callOf,
  isConstrained,
  speak,
  speakersOf,
  wholeAnswer,
  type Contribution,
  type Round,
} from './ask-all.ts';
import { peersBlock, withUserText } from './peers.ts';
import type { ProtocolContext } from './protocol.ts';
import { roomFor } from './room.ts';

export interface Synthesis {
  /** The first part of the slot. */
  readonly stage: string;
  readonly purpose: Purpose;
  readonly introduction?: string;
  readonly instruction: string;
  /** Who is asked, and who next. */
  readonly order: readonly Member[];
  /** At least one. */
  readonly drafts: readonly Contribution[];
  /** Set where the drafts come best first: they are shown so, and the first stands when nobody can speak. */
  readonly ranked?: true;
}

function synthesisBy(task: Task, synthesis: Synthesis, { random }: ProtocolContext) {
  const { stage, purpose, introduction, instruction, drafts, ranked = false } = synthesis;
  return (member: Member): Call => {
    const room = roomFor(member, task.messages, task.sampling);
    const showing = { instruction, random, room, ordered: ranked, ...(introduction && { introduction }) };
    return callOf(task, member, {
      slot: `${stage}/${member.alias}`,
      purpose,
      messages: withUserText(task.messages, peersBlock(drafts, showing)),
      reads: drafts.map(({ slot }) => slot),
      canReachClient: true,
      speaks: true,
      tools: true,
    });
  };
}

/**
 * Lets the first of the order that has not failed write the answer from the drafts. When nobody can, or no time is
 * left, a draft stands: the best of ranked ones, else that of the first in the order. No draft stands where the client
 * set a form that drafts are not held to.
 *
 * @param round holds who has failed before: those are not asked again
 */
export async function* synthesise(
  task: Task,
  synthesis: Synthesis,
  context: ProtocolContext,
  round: Round,
): AsyncGenerator<Part, Answer> {
  const { drafts, ranked } = synthesis;
  const order = speakersOf(synthesis.order, task);
  const isFree = !isConstrained(task);
  const failed = new Set(round.absences.map(({ member }) => member));
  const [only] = drafts;
  // Whoever wrote the only draft has nothing to read.
  if (only && drafts.length === 1 && isFree) failed.add(only.member);
  const able = order.filter((member) => !failed.has(member));
  const answer = yield* speak(able, synthesisBy(task, synthesis, context), context, round);
  if (!answer) {
    const byRole = order.flatMap((member) => drafts.filter((draft) => draft.member === member));
    const [best] = ranked ? drafts : byRole;
    if (!best || !isFree) throw round.failure();
    return yield* wholeAnswer(best.slot, best.answer);
  }
  return { ...answer, from: [...new Set([...answer.from, ...drafts.map(({ member }) => member.alias)])] };
}
