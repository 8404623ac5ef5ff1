/** Asking a round of members side by side, and letting one of them speak. Every protocol is made of these. */
import Type from 'typebox';
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
   * Whether the output can become the client's answer. Only then do format constraints and stop strings apply, and
   * the client's wish for log-probabilities; a draft that others read is better without them.
   */
  readonly canReachClient: boolean;
  readonly speaks?: boolean;
  readonly tools?: boolean;
  readonly confidence?: boolean;
}

/** Whether tools are offered to it: not to a member that is known to call none, or must not in this system. */
export function mayCallTools({ capabilities }: Member): boolean {
  return capabilities.tools !== false;
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
    ...(asking.canReachClient && task.topLogprobs !== undefined && { topLogprobs: task.topLogprobs }),
    ...(asking.tools &&
      task.tools &&
      mayCallTools(member) && { tools: task.tools, ...(task.toolRules && { toolRules: task.toolRules }) }),
    ...(asking.confidence && { confidence: true }),
  };
}

/** Whether the client's answer must keep to a form that drafts are not held to, or may be calls of tools. */
export function isConstrained({ responseFormat, sampling, tools }: Task): boolean {
  if (tools && tools.length > 0) return true;
  return responseFormat !== undefined || (sampling.stop !== undefined && sampling.stop !== null);
}

/** Collects who answered and who did not. */
export class Round {
  readonly contributions: Contribution[] = [];
  readonly absences: { member: Member; absence: Absence }[] = [];

  add({ call }: Reply, result: Answer | Absence): void {
    const { member, slot, sample } = call;
    if (isAbsent(result)) this.absences.push({ member, absence: result });
    else this.contributions.push({ member, slot, sample, answer: result });
  }

  /** The error of a run in which nobody answered: each member with its reason; their status, if it is the same. */
  failure(): ConsortError {
    const errors = this.absences.map(({ absence }) => absence.error);
    const [first] = errors;
    if (first && errors.length === 1) return first;
    const team = this.absences.map(({ member }) => member.alias).join(', ');
    const reasons = this.absences.map(({ member, absence }) => `${member.alias}: ${absence.error.message}`);
    const alike = first && errors.every(({ status }) => status === first.status);
    return new ConsortError('members_failed', [team, reasons.join('; ')], {
      ...(alike && { status: first.status }),
      retryable: errors.some(({ retryable }) => retryable),
    });
  }
}

/** Starts all calls at once and waits for all of them; the order of the result is the order of the calls. */
export async function askAll(calls: readonly Call[], { ask }: ProtocolContext): Promise<Round> {
  const replies = calls.map((call) => ask(call));
  const round = new Round();
  for (const reply of replies) round.add(reply, await reply.answer);
  return round;
}

/** As `askAll`, as a part of a longer run: who did not answer is added to `round`. */
export async function askInto(
  calls: readonly Call[],
  context: ProtocolContext,
  round: Round,
): Promise<readonly Contribution[]> {
  const { contributions, absences } = await askAll(calls, context);
  round.absences.push(...absences);
  return contributions;
}

export const EarlyExit = Type.Number({
  minimum: 0,
  maximum: 1,
  default: 0.9,
  description:
    'Share of the runs in which members whose answers can no longer change the outcome are stopped; in the others, ' +
    'drawn by prompt, all are heard, so that what is recorded of members stays unbiased.',
});

/** Whether nothing that the calls under way may bring can change the answer, its words included. */
export type Settled = (heard: readonly Contribution[], underWay: readonly Call[]) => boolean;

/**
 * As `askAll`, but stops who is still under way as soon as the answer is settled, in a share of the runs. Those who are
 * stopped are neither contributions nor absences.
 */
export async function askUntil(
  calls: readonly Call[],
  isSettled: Settled,
  share: number,
  { ask, settle }: Pick<ProtocolContext, 'ask' | 'settle'>,
): Promise<Round> {
  const replies = calls.map((call) => ask(call));
  const heard = new Map<Reply, Answer | Absence>();
  const stopped = new Set<Reply>();
  let isOpen = true;
  const hear = (reply: Reply, result: Answer | Absence) => {
    heard.set(reply, result);
    const underWay = replies.filter((one) => !heard.has(one));
    if (!isOpen || underWay.length === 0) return;
    if (
      !isSettled(
        roundOf(replies, heard, stopped).contributions,
        underWay.map(({ call }) => call),
      )
    )
      return;
    isOpen = false;
    if (!settle(share)) return;
    for (const late of underWay) {
      stopped.add(late);
      late.cancel();
    }
  };
  await Promise.all(replies.map(async (reply) => hear(reply, await reply.answer)));
  return roundOf(replies, heard, stopped);
}

/** In the order of the calls, whatever the order of arrival. */
function roundOf(
  replies: readonly Reply[],
  heard: ReadonlyMap<Reply, Answer | Absence>,
  stopped: ReadonlySet<Reply>,
): Round {
  const round = new Round();
  for (const reply of replies) {
    const result = stopped.has(reply) ? undefined : heard.get(reply);
    if (result) round.add(reply, result);
  }
  return round;
}

/** Words that cannot be taken back once the client has read them. */
function isWord(part: Part): boolean {
  if (part.type === 'text-delta') return part.text.trim() !== '';
  return part.type === 'reasoning-delta' || part.type === 'tool-call-delta';
}

/** Who is to speak, and who next: as ordered, but where there are tools, those who may call them before the others. */
export function speakersOf(order: readonly Member[], { tools }: Task): readonly Member[] {
  if (!tools?.length) return order;
  return order.toSorted((a, b) => Number(mayCallTools(b)) - Number(mayCallTools(a)));
}

/**
 * Lets the first member of `order` speak to the client. A member that fails before its first word is replaced by the
 * next, and its absence is added to `round`; one that fails later ends the run: what the client has read cannot be
 * taken back. A call that passes through is heard from its first byte. Undefined when nobody spoke.
 */
export async function* speak(
  order: readonly Member[],
  makeCall: (member: Member) => Call,
  { ask, left }: ProtocolContext,
  round: Round,
): AsyncGenerator<Part, Answer | undefined> {
  for (const member of order) {
    // With nothing left there is no use in asking the next; the first is asked, so that there is a reason.
    if (round.absences.length > 0 && left().calls === 0) break;
    const call = makeCall(member);
    const reply = ask(call);
    let heard = call.extra !== undefined;
    const held: Part[] = [];
    for await (const part of reply) {
      heard ||= isWord(part);
      if (!heard) held.push(part);
      else {
        if (held.length > 0) yield* held.splice(0);
        yield part;
      }
    }
    const result = await reply.answer;
    if (!isAbsent(result)) {
      if (held.length > 0) yield* held;
      return result;
    }
    if (heard) throw result.error;
    round.add(reply, result);
  }
  return undefined;
}

/** A finished answer as parts: whole, never cut into pieces to look like a stream. */
export function* wholeAnswer(slot: string, answer: Answer): Generator<Part, Answer> {
  const at = { slot, choice: 0 };
  if (answer.message.reasoning) yield { type: 'reasoning-delta', ...at, text: answer.message.reasoning };
  if (answer.logprobs) yield { type: 'logprobs-delta', ...at, content: answer.logprobs };
  const { text, toolCalls = [] } = answer.message;
  if (text !== '' || toolCalls.length === 0) yield { type: 'text-delta', ...at, text };
  for (const [index, call] of toolCalls.entries()) {
    const { name, arguments: given } = call.function;
    yield { type: 'tool-call-delta', ...at, index, id: call.id, name, arguments: given };
  }
  yield { type: 'finish', ...at, reason: answer.finishReason };
  return answer;
}
