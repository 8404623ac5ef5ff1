/**
 * Decorator: lets the coalitions of one prompt share identical calls. The key holds everything that can change
 * an answer: the member's revision, which of several equal members it is, the messages, the sampling, the sample,
 * the replicate. A call that speaks to a streaming client is never taken from here: it must be heard as it comes.
 */
import type { Answer, Call, Exchange, Send } from '../../contract/call.ts';
import type { SharedCalls } from '../../contract/capabilities.ts';
import { ConsortError } from '../../contract/errors.ts';
import { untilAborted } from './abort.ts';

export function callKey(call: Call, replicate: number): string {
  const { member, messages, sampling, sample, tools, responseFormat, topLogprobs } = call;
  const { toolRules, choose, confidence, extra, wants } = call;
  return JSON.stringify([
    member.alias,
    member.revision,
    sample,
    replicate,
    messages,
    sampling,
    tools,
    toolRules,
    responseFormat,
    topLogprobs,
    choose,
    confidence,
    extra,
    wants,
    call.continues,
    call.tokens,
  ]);
}

/** Failures of the run that asked first: another run that waits for the same answer has no part in them. */
const OF_THE_RUN: readonly string[] = [
  'client_gone',
  'call_not_needed',
  'deadline',
  'budget_spent',
  'shutting_down',
];

export function reuse(shared: SharedCalls, replicate: number): (next: Send) => Send {
  return (next) => async (exchange) => {
    if (exchange.stream) return next(exchange);
    const { note, signal } = exchange;
    const key = callKey(exchange.call, replicate);
    for (let known = shared.get(key); known; known = shared.get(key)) {
      note.reused = true;
      try {
        const answer = await untilAborted(known, signal);
        await repeat(answer, exchange);
        return answer;
      } catch (error) {
        const mine = signal.aborted || !ConsortError.is(error) || !OF_THE_RUN.includes(error.code);
        if (mine) throw error;
      }
    }
    note.reused = false;
    const pending: Promise<Answer> = next(exchange);
    shared.set(key, pending);
    // A failure is not kept: the next coalition asks anew instead of inheriting an accident.
    pending.catch(() => shared.delete(key));
    return pending;
  };
}

async function repeat({ message, finishReason }: Answer, { call, emit }: Exchange): Promise<void> {
  const at = { slot: call.slot, choice: 0 };
  await emit({ type: 'text-delta', ...at, text: message.text });
  await emit({ type: 'finish', ...at, reason: finishReason });
}
