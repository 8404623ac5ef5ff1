/**
 * Decorator, innermost: what every call keeps to, whatever its upstream does. It ends when it is stopped, even if the
 * upstream does not, and an answer that says nothing is a failure, with the tokens that it cost. Only where bytes pass
 * through is an empty answer the client's own affair, as it may hold what we do not read; a single token may be no
 * whole character, or the end, and whoever is to go on with a text may find it finished.
 */
import type { Answer, Send } from '../../contract/call.ts';
import { ConsortError } from '../../contract/errors.ts';
import { untilAborted } from './abort.ts';

function saysNothing({ message }: Answer): boolean {
  return message.text.trim() === '' && !message.toolCalls?.length;
}

export function upright(passesThrough: boolean): (next: Send) => Send {
  return (next) => async (exchange) => {
    const { call, signal, note } = exchange;
    signal.throwIfAborted();
    const answer = await untilAborted(next(exchange), signal);
    if (passesThrough || call.tokens || call.continues || !saysNothing(answer)) return answer;
    note.lostUsage.inputTokens += answer.usage.inputTokens;
    note.lostUsage.outputTokens += answer.usage.outputTokens;
    note.empty = answer;
    throw new ConsortError('upstream_empty', [call.member.alias]);
  };
}
