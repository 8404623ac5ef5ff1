/** Decorator, outermost: tells whoever runs the system of every call and what came of it, tokens and all. */
import type { Answer, CallEnd, Send } from '../../contract/call.ts';
import { absenceOf } from './reply.ts';

export function witness(onCall: (end: CallEnd) => void): (next: Send) => Send {
  return (next) => async (exchange) => {
    const { call, note } = exchange;
    let answer: Answer;
    try {
      answer = await next(exchange);
    } catch (error) {
      onCall({ call, result: absenceOf(error), note });
      throw error;
    }
    onCall({ call, result: answer, note });
    return answer;
  };
}
