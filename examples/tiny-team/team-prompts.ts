/**
 * The prompts that members of a team see, taken from the product itself: its protocols run on canned answers, and
 * the call in question is caught on its way out. So training prompts cannot drift from what is sent in use.
 */
import type { Answer, Call, Reply } from '../../src/contract/call.ts';
import type { ChatMessage } from '../../src/contract/chat.ts';
import type { Part } from '../../src/contract/part.ts';
import type { Member } from '../../src/contract/plan.ts';
import { debate } from '../../src/gateway/protocols/debate.ts';
import { fuse } from '../../src/gateway/protocols/fuse.ts';
import type { Options, Protocol } from '../../src/gateway/protocols/protocol.ts';

/** Chance in [0, 1). */
export type Chance = () => number;

/** What the fuser reads when the others drafted `answers`. */
export function fuseMessages(
  prompt: string,
  answers: readonly string[],
  chance: Chance,
): Promise<readonly ChatMessage[]> {
  return caught(fuse, { fusers: [], fuserDrafts: false }, 'fuse', prompt, ['', ...answers], chance);
}

/** What a member reads in a later round when it said `own` and the others `answers`. */
export function debateMessages(
  prompt: string,
  own: string,
  answers: readonly string[],
  chance: Chance,
): Promise<readonly ChatMessage[]> {
  return caught(debate, { rounds: 2, ties: 'priority' }, 'revise', prompt, [own, ...answers], chance);
}

/** The first member's call for `purpose`, when the members first say `texts`. */
async function caught(
  protocol: Protocol,
  options: Options,
  purpose: Call['purpose'],
  prompt: string,
  texts: readonly string[],
  chance: Chance,
): Promise<readonly ChatMessage[]> {
  const team = texts.map((_, seat) => memberOf(seat));
  const calls: Call[] = [];
  const ask = (call: Call): Reply => {
    calls.push(call);
    return replyOf(call, texts[team.indexOf(call.member)] ?? '');
  };
  const labels = new Map<string, number>();
  const random = (label: string): number => {
    const number = labels.get(label) ?? chance();
    labels.set(label, number);
    return number;
  };
  const task = { messages: [{ role: 'user' as const, content: prompt }], sampling: {} };
  const left = () => ({ calls: 100, ms: 1000 });
  // Nobody is cut short here, so the best answer so far and an early end do not matter.
  const context = { ask, random, left, offer: () => undefined, settle: () => false };
  const run = protocol.run(task, team, options, context);
  for (let step = await run.next(); !step.done; step = await run.next());
  const call = calls.find((each) => each.purpose === purpose && each.member === team[0]);
  if (!call) throw new Error(`${protocol.name} made no call to ${purpose}`);
  return call.messages;
}

function memberOf(seat: number): Member {
  const alias = `member-${seat}`;
  return {
    alias,
    model: alias,
    upstream: alias,
    provider: 'openai-compatible',
    revision: '1',
    price: { inputMicros: 0, outputMicros: 0 },
    capabilities: {},
  };
}

function replyOf(call: Call, text: string): Reply {
  const answer: Answer = {
    message: { text: text || 'never read' },
    finishReason: 'stop',
    usage: { inputTokens: 0, outputTokens: 0 },
    from: [call.member.alias],
  };
  return {
    call,
    answer: Promise.resolve(answer),
    cancel() {},
    async *[Symbol.asyncIterator](): AsyncGenerator<Part> {},
  };
}
