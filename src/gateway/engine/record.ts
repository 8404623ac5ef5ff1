/** Decorator: one CallRecord for each call, however it ends. Outermost, so that it sees what the protocol sees. */
import type { Answer, CallNote, Exchange, Send } from '../../contract/call.ts';
import type { Clock } from '../../contract/capabilities.ts';
import type { Usage } from '../../contract/chat.ts';
import type { CallRecord } from '../../contract/outcome.ts';
import type { Emit } from '../../contract/part.ts';
import type { Price } from '../../contract/plan.ts';
import { absenceOf } from './reply.ts';

/** Cost in micro-USD; prices are micro-USD per million tokens, rounded up so that a sum is never too low. */
export function costMicros(usage: Usage, price: Price): number {
  return Math.ceil((usage.inputTokens * price.inputMicros + usage.outputTokens * price.outputMicros) / 1e6);
}

/** What a call has cost: what was lost at the member's price, the answer at the price of whoever gave it. */
export function costOf({ call, note }: Exchange, answer: Answer | undefined): number {
  if (note.reused) return 0;
  const { price } = call.member;
  if (note.standIn && answer) {
    return costMicros(note.lostUsage, price) + costMicros(answer.usage, note.standIn.member.price);
  }
  return costMicros(usageOf(note, answer), price);
}

function usageOf({ lostUsage }: CallNote, answer: Answer | undefined): Usage {
  return {
    inputTokens: lostUsage.inputTokens + (answer?.usage.inputTokens ?? 0),
    outputTokens: lostUsage.outputTokens + (answer?.usage.outputTokens ?? 0),
  };
}

/** The calls of one run, in the order in which they ended. */
export interface CallBook {
  readonly records: CallRecord[];
  readonly startedAt: number;
  readonly clock: Clock;
  /** Receives step-start and step-end when the client asked for a trace. */
  readonly trace?: Emit;
}

export function record(book: CallBook): (next: Send) => Send {
  return (next) => async (exchange) => {
    const { call, note } = exchange;
    const startMs = book.clock.elapsed() - book.startedAt;
    let firstPartMs: number | null = null;
    const at = { slot: call.slot, choice: 0 };
    void book.trace?.({ type: 'step-start', ...at, purpose: call.purpose, member: call.member.alias });
    const emit: Emit = (part) => {
      if (part.type !== 'opaque') firstPartMs ??= book.clock.elapsed() - book.startedAt;
      return exchange.emit(part);
    };
    const close = (answer: Answer | undefined, thrown: unknown) => {
      const absence = answer ? undefined : absenceOf(thrown);
      const entry = entryOf(exchange, answer, absence);
      const endMs = book.clock.elapsed() - book.startedAt;
      book.records.push({ ...entry, startMs, firstPartMs, endMs });
      void book.trace?.({
        type: 'step-end',
        ...at,
        member: call.member.alias,
        status: entry.status,
        durationMs: endMs - startMs,
        usage: entry.usage,
        ...(answer && { text: answer.message.text }),
      });
    };
    try {
      const answer = await next({ call, emit, signal: exchange.signal, stream: exchange.stream, note });
      close(answer, undefined);
      return answer;
    } catch (error) {
      close(undefined, error);
      throw error;
    }
  };
}

function entryOf(
  exchange: Exchange,
  answer: Answer | undefined,
  absence: ReturnType<typeof absenceOf> | undefined,
): Omit<CallRecord, 'startMs' | 'firstPartMs' | 'endMs'> {
  const { call, note } = exchange;
  const { standIn } = note;
  const endpoint = note.endpoint ?? note.asked?.at(-1);
  return {
    slot: call.slot,
    member: call.member.alias,
    revision: call.member.revision,
    purpose: call.purpose,
    reads: [...call.reads],
    sample: call.sample,
    status: absence ? absence.status : 'ok',
    ...(absence && { errorCode: absence.error.code }),
    ...(standIn && answer && { standIn: standIn.member.alias, errorCode: standIn.code }),
    ...(answer && { finishReason: answer.finishReason }),
    attempts: note.attempts,
    reused: note.reused,
    ...(endpoint !== undefined && { endpoint }),
    usage: usageOf(note, answer),
    costMicros: costOf(exchange, answer),
  };
}
