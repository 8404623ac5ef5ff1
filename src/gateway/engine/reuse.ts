/**
 * Decorator: lets the coalitions of one prompt share identical calls. The key holds everything that can change
 * an answer: the member's revision, which of several equal members it is, the messages, the sampling, the sample.
 * A call that speaks to a streaming client is never taken from here: it must be heard as it comes.
 */
import type { Answer, Call, Send } from '../../contract/call.ts';
import type { SharedCalls } from '../../contract/capabilities.ts';

export function callKey(call: Call): string {
  const { member, messages, sampling, sample, tools, responseFormat, extra, wants } = call;
  return JSON.stringify([
    member.alias,
    member.revision,
    sample,
    messages,
    sampling,
    tools,
    responseFormat,
    extra,
    wants,
  ]);
}

export function reuse(shared: SharedCalls): (next: Send) => Send {
  return (next) => async (exchange) => {
    if (exchange.stream) return next(exchange);
    const key = callKey(exchange.call);
    const known = shared.get(key);
    if (known) {
      const answer = await known;
      exchange.note.reused = true;
      await exchange.emit({
        type: 'text-delta',
        slot: exchange.call.slot,
        choice: 0,
        text: answer.message.text,
      });
      await exchange.emit({
        type: 'finish',
        slot: exchange.call.slot,
        choice: 0,
        reason: answer.finishReason,
      });
      return answer;
    }
    const pending: Promise<Answer> = next(exchange);
    shared.set(key, pending);
    // A failure is not kept: the next coalition asks anew instead of inheriting an accident.
    pending.catch(() => shared.delete(key));
    return pending;
  };
}
