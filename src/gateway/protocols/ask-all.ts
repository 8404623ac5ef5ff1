/** Asking a round of members side by side, and letting one of them speak. Every protocol is made of these. */
import {
  isAbsent,
  type Absence,
  type Answer,
  type Call,
  type Purpose,
  type Reply,
} from '../../contract/call.ts';
import type { ChatMessage, Sampling } from '../../contract/chat.ts';
import { ConsortError } from '../../contract/errors.ts';
import type { Part } from '../../contract/part.ts';
import type { Member } from '../../contract/plan.ts';
import type { Task } from '../../contract/task.ts';
import type { ProtocolContext } from './protocol.ts';

/** A member's answer with the slot it came from. */
export interface Contribution {
  readonly member: Member;
  readonly slot: string;
  readonly sample: number;
  readonly answer: Answer;
}

/** What one call of a round needs beyond its member. */
export interface Asking {
  readonly slot: string;
  readonly purpose: Purpose;
  readonly messages: readonly ChatMessage[];
  readonly reads?: readonly string[];
  readonly sample?: number;
  /**
   * Whether the output can become the client's answer. Only then do format constraints and stop strings apply;
   * a draft that others read is better without them.
   */
  readonly canReachClient: boolean;
  readonly speaks?: boolean;
  readonly tools?: boolean;
}

export function callOf(task: Task, member: Member, asking: Asking): Call {
  const { stop: _stop, ...inner } = task.sampling;
  const sampling: Sampling = asking.canReachClient ? task.sampling : inner;
  return {
    slot: asking.slot,
    member,
    purpose: asking.purpose,
    messages: asking.messages,
    sampling,
    sample: asking.sample ?? 0,
    reads: asking.reads ?? [],
    speaks: asking.speaks ?? false,
    ...(asking.canReachClient &&
      task.responseFormat !== undefined && { responseFormat: task.responseFormat }),
    ...(asking.tools && task.tools && { tools: task.tools }),
  };
}

/** Collects who answered and who did not; an empty answer is an absence. */
export class Round {
  readonly contributions: Contribution[] = [];
  readonly absences: { member: Member; absence: Absence }[] = [];

  add(member: Member, reply: Reply, result: Answer | Absence): void {
    if (isAbsent(result)) this.absences.push({ member, absence: result });
    else if (result.message.text.trim() === '' && !result.message.toolCalls?.length) {
      const error = new ConsortError('upstream_empty', [member.alias]);
      this.absences.push({ member, absence: { absent: true, status: 'failed', error } });
    } else {
      const { slot, sample } = reply.call;
      this.contributions.push({ member, slot, sample, answer: result });
    }
  }

  /** The error of a run in which nobody answered: each member with its reason. */
  failure(): ConsortError {
    const [first] = this.absences;
    if (first && this.absences.length === 1) return first.absence.error;
    const team = this.absences.map(({ member }) => member.alias).join(', ');
    const reasons = this.absences.map(({ member, absence }) => `${member.alias}: ${absence.error.message}`);
    const timedOut =
      this.absences.length > 0 && this.absences.every(({ absence }) => absence.status === 'timeout');
    return new ConsortError('members_failed', [team, reasons.join('; ')], timedOut ? { status: 504 } : {});
  }
}

/** Starts all calls at once and waits for all of them; the order of the result is the order of the calls. */
export async function askAll(calls: readonly Call[], { ask }: ProtocolContext): Promise<Round> {
  const replies = calls.map((call) => ask(call));
  const results = await Promise.all(replies.map((reply) => reply.answer));
  const round = new Round();
  for (const [index, result] of results.entries()) {
    const reply = replies[index];
    if (reply) round.add(reply.call.member, reply, result);
  }
  return round;
}

/**
 * Lets the first member of `order` speak to the client; a member that fails before its first word is replaced by
 * the next, one that fails later ends the run: what the client has read cannot be taken back.
 */
export async function* speak(
  order: readonly Member[],
  makeCall: (member: Member) => Call,
  { ask }: ProtocolContext,
): AsyncGenerator<Part, Answer> {
  const round = new Round();
  for (const member of order) {
    const reply = ask(makeCall(member));
    let spoke = false;
    for await (const part of reply) {
      spoke ||= part.type !== 'opaque';
      yield part;
    }
    const result = await reply.answer;
    if (isAbsent(result) && spoke) throw result.error;
    round.add(member, reply, result);
    const [contribution] = round.contributions;
    if (contribution) return contribution.answer;
  }
  throw round.failure();
}

/** A finished answer as parts: whole, never cut into pieces to look like a stream. */
export function* wholeAnswer(slot: string, answer: Answer): Generator<Part, Answer> {
  const at = { slot, choice: 0 };
  if (answer.message.reasoning) yield { type: 'reasoning-delta', ...at, text: answer.message.reasoning };
  yield { type: 'text-delta', ...at, text: answer.message.text };
  yield { type: 'finish', ...at, reason: answer.finishReason };
  return answer;
}
