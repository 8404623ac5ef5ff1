/**
 * Label steps: a question whose answer is one word of a list (whom to ask, which is better, yes or no, what to do
 * next). The member is held to the list by whatever its endpoint has (`upstreams/label-step.ts`), and the label is the
 * whole of what it says, never something found in prose. Temperature 0, except where training samples freely.
 *
 * What counts, in this order: the whole answer, trimmed and without thinking, or the field of the JSON object that it
 * was held to; the likeliest label, where the endpoint tells log-probabilities; else the fallback, which each protocol
 * documents. A free step counts whole answers only: its reward must be that of the tokens that were sampled.
 */
import { isAbsent, type Absence, type Answer, type Call, type Purpose } from '../../contract/call.ts';
import type { ChatMessage } from '../../contract/chat.ts';
import type { Member } from '../../contract/plan.ts';
import type { Task } from '../../contract/task.ts';
import { withoutThinking } from '../../scoring/rewards/thinking.ts';
import { callOf, type Round } from './ask-all.ts';
import { labelProbabilities } from './label-probabilities.ts';
import { withUserText } from './peers.ts';
import type { ProtocolContext } from './protocol.ts';

const ONE_OF = 'Reply with exactly one of these and nothing else: ';
/** Tokens besides those of the label: the form around it. */
const ROOM_TOKENS = 16;

export interface Question {
  readonly slot: string;
  readonly purpose: Purpose;
  /** The conversation with the question; the list of labels is added to its end. */
  readonly messages: readonly ChatMessage[];
  /** At least two different words without space around them. Short ones of one token (A, B; 1, 2) work best. */
  readonly labels: readonly string[];
  readonly reads?: readonly string[];
  readonly sample?: number;
  /** Whether the labels' probabilities are wanted, too, where the endpoint can tell them. */
  readonly probabilities?: boolean;
}

/** What a label step came to. */
export interface Decision {
  readonly label: string;
  readonly by: 'answer' | 'likelihood' | 'fallback';
  /** Where the label was read; undefined when nobody answered. */
  readonly slot?: string;
  readonly member?: Member;
  /** Of each label, summing to 1, where the endpoint told. */
  readonly probabilities?: ReadonlyMap<string, number>;
}

export function labelCall(task: Task, member: Member, question: Question): Call {
  const { labels, probabilities = false, messages, slot, purpose, reads, sample } = question;
  if (new Set(labels).size < 2 || labels.some((label) => label === '' || label !== label.trim())) {
    throw new RangeError(`labels must be two or more different words: ${labels.join(', ')}`);
  }
  const asking = {
    slot,
    purpose,
    messages: withUserText(messages, ONE_OF + labels.join(', ')),
    canReachClient: false,
    ...(reads && { reads }),
    ...(sample !== undefined && { sample }),
  };
  return {
    ...callOf(task, member, asking),
    sampling: terse(task, member, labels),
    choose: { labels, probabilities },
  };
}

/** No chance and no room for prose; a member that thinks first is left to do so as it is used to. */
function terse({ sampling }: Task, { capabilities }: Member, labels: readonly string[]): Call['sampling'] {
  if (capabilities.reasoning) return {};
  const limit = sampling.max_completion_tokens === undefined ? 'max_tokens' : 'max_completion_tokens';
  const longest = Math.max(...labels.map(({ length }) => length));
  return { temperature: 0, [limit]: ROOM_TOKENS + longest };
}

/** The label that the whole text is, and where in it that stands. */
function stated(text: string, labels: readonly string[], free: boolean) {
  const said = withoutThinking(text)?.trim();
  if (said === undefined) return undefined;
  const field = free ? undefined : /^\{\s*"label"\s*:\s*(".*")\s*\}$/s.exec(said)?.[1];
  return labels.find((label) => label === said || JSON.stringify(label) === field);
}

export function readLabel(
  { choose: step }: Call,
  { message, logprobs }: Answer,
  fallback: string,
): Omit<Decision, 'slot'> {
  if (!step) throw new TypeError('a label was read from a call that asked for none');
  const { labels, free = false } = step;
  const label = stated(message.text, labels, free);
  const start = label === undefined ? 0 : message.text.lastIndexOf(label);
  const probabilities = !free && logprobs ? labelProbabilities(logprobs, labels, start) : undefined;
  const more = probabilities && { probabilities };
  if (label !== undefined) return { label, by: 'answer', ...more };
  const [likeliest] = [...(probabilities ?? [])].toSorted(([, a], [, b]) => b - a);
  if (likeliest) return { label: likeliest[0], by: 'likelihood', ...more };
  return { label: fallback, by: 'fallback' };
}

/** Reads what has come of a label call; an absence gives the fallback. */
export function decisionOf(call: Call, result: Answer | Absence, fallback: string): Decision {
  if (isAbsent(result)) return { label: fallback, by: 'fallback' };
  return { ...readLabel(call, result, fallback), slot: call.slot, member: call.member };
}

/**
 * Asks the first member of `order` that answers: a role-holder that fails is replaced by the next, and its absence is
 * added to `round`. What is no label gives the fallback at once, as asking others until one obeys would be a choice of
 * another kind.
 */
export async function choose(
  order: readonly Member[],
  makeCall: (member: Member) => Call,
  fallback: string,
  { ask, left }: Pick<ProtocolContext, 'ask' | 'left'>,
  round: Round,
): Promise<Decision> {
  for (const [tried, member] of order.entries()) {
    if (tried > 0 && left().calls === 0) break;
    const reply = ask(makeCall(member));
    const result = await reply.answer;
    if (!isAbsent(result)) return decisionOf(reply.call, result, fallback);
    round.add(reply, result);
  }
  return { label: fallback, by: 'fallback' };
}

/** Asks all at once (a vote, a panel of judges); a decision for each call, in their order. */
export async function chooseAll(
  calls: readonly Call[],
  fallback: string,
  { ask }: Pick<ProtocolContext, 'ask'>,
): Promise<Decision[]> {
  const replies = calls.map((call) => ask(call));
  return Promise.all(replies.map(async (reply) => decisionOf(reply.call, await reply.answer, fallback)));
}
