/**
 * Decorator: other models stand in for one that fails before its first word. Whoever asked gets an answer; the record
 * says whose it is, and the member counts as absent. Only in live runs, and only where the words of another model can
 * take the place of the member's: not its tokens, its vectors or what it had begun.
 */
import type { Answer, Call, Exchange, Send } from '../../contract/call.ts';
import { ConsortError } from '../../contract/errors.ts';
import type { Emit } from '../../contract/part.ts';
import type { Member } from '../../contract/plan.ts';
import { hasImage } from './legible.ts';
import { isOfUpstream } from './retry.ts';

export interface FallbackOptions {
  /** Who stands in for a model, in order. */
  readonly fallbacksOf: (alias: string) => readonly Member[];
  readonly onFallback: (alias: string, to: string) => void;
}

function mayStandIn(call: Call, { capabilities }: Member): boolean {
  if (call.tools && capabilities.tools === false) return false;
  return capabilities.images !== false || !hasImage(call);
}

function isReplaceable({ route, tokens, wants, continues }: Call): boolean {
  return !route && !tokens && !wants && !continues;
}

function isFailure(error: ConsortError): boolean {
  return error.code === 'circuit_open' || isOfUpstream(error);
}

export function fallback(options: FallbackOptions): (next: Send) => Send {
  return (next) => (exchange) => {
    const { call } = exchange;
    const members = options.fallbacksOf(call.member.alias);
    if (members.length === 0 || !isReplaceable(call)) return next(exchange);
    return standIn(options, next, exchange, members);
  };
}

async function standIn(
  { onFallback }: FallbackOptions,
  next: Send,
  exchange: Exchange,
  members: readonly Member[],
): Promise<Answer> {
  const { call, note, signal } = exchange;
  let heard = false;
  const emit: Emit = (part) => {
    heard = true;
    return exchange.emit(part);
  };
  const mayGoOn = (error: ConsortError) => !heard && !signal.aborted && isFailure(error);
  let first: ConsortError;
  try {
    return await next({ ...exchange, emit });
  } catch (thrown) {
    first = ConsortError.from(thrown);
    if (!mayGoOn(first)) throw first;
  }
  for (const member of members.filter((one) => mayStandIn(call, one))) {
    // Its endpoints are others.
    delete note.asked;
    try {
      const answer = await next({ ...exchange, emit, call: { ...call, member } });
      note.standIn = { member, code: first.code };
      onFallback(call.member.alias, member.alias);
      return answer;
    } catch (thrown) {
      const error = ConsortError.from(thrown);
      if (!mayGoOn(error)) throw error;
    }
  }
  throw first;
}
