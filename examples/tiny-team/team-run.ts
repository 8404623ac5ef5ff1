/** Runs the product's own protocols on made-up members, and keeps the calls that they make: what members are asked. */
import type { Answer, Call, Reply } from '../../src/contract/call.ts';
import type { Part } from '../../src/contract/part.ts';
import type { Member } from '../../src/contract/plan.ts';
import type { Options, Protocol } from '../../src/gateway/protocols/protocol.ts';

/** Chance in [0, 1). */
export type Chance = () => number;

/**
 * What a gateway should be told of the window of 512 tokens, so that it cuts what does not fit: it counts three bytes to
 * a token, and a vocabulary of 512 has about two.
 */
export const WINDOW = 340;

export interface Staged {
  readonly team: readonly Member[];
  readonly chance: Chance;
  /** What a member says. */
  readonly say: (call: Call) => string;
}

/** All calls of one run on the question, in their order. */
export async function callsOf(
  protocol: Protocol,
  options: Options,
  question: string,
  { team, chance, say }: Staged,
): Promise<Call[]> {
  const calls: Call[] = [];
  const ask = (call: Call): Reply => {
    calls.push(call);
    return replyOf(call, say(call));
  };
  const labels = new Map<string, number>();
  const random = (label: string): number => {
    const number = labels.get(label) ?? chance();
    labels.set(label, number);
    return number;
  };
  const task = { messages: [{ role: 'user' as const, content: question }], sampling: { max_tokens: 32 } };
  const left = () => ({ calls: 100, ms: 1000 });
  // Nobody is cut short here, so the best answer so far and an early end do not matter.
  const context = { ask, random, left, offer: () => undefined, settle: () => false };
  const run = protocol.run(task, team, options, context);
  for (let step = await run.next(); !step.done; step = await run.next());
  return calls;
}

export function memberOf(seat: number, description?: string): Member {
  const alias = `member-${seat}`;
  return {
    alias,
    model: alias,
    upstream: alias,
    provider: 'openai-compatible',
    revision: '1',
    price: { inputMicros: 0, outputMicros: 0 },
    capabilities: { context: WINDOW },
    ...(description !== undefined && { description }),
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
