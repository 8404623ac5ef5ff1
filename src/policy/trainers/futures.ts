/**
 * Waiting for the result of a submitted operation. Servers disagree about how they say "not yet" and "no"; the table
 * is in docs/trainers.md. Each poll holds the line for less than any timeout on the way, then asks again.
 */
import { ConsortError } from '../../contract/errors.ts';
import { isAway, messageOf, pauseAfter, statusError, type Reply, type TrainerHttp } from './http.ts';
import { Failed, Pending, Reader } from './wire.ts';

const pendingReader = new Reader(Pending);
const failedReader = new Reader(Failed);

/** Failures in a row, with pauses that double, after which a server that answers 5xx is believed. */
const MAX_FAILURES = 6;
/** Pause after a 402: the account is out of credit, or the server paused the run. */
const BILLING_PAUSE_MS = 5_000;

/** The server forgot the promise but not the model: the same request may be sent again. */
export class LostPromise extends Error {
  override readonly name = 'LostPromise';
}

type Verdict = 'done' | 'again' | 'wait';

/**
 * The reply that holds the result.
 *
 * @throws LostPromise (410); trainer_failed, trainer_lost, trainer_timeout, trainer_status
 */
export async function awaitResult(
  http: TrainerHttp,
  requestId: string,
  operation: string,
  signal?: AbortSignal,
): Promise<Reply> {
  const { pollMs, resultMs, submitMs, pauseMs } = http.timeouts;
  const end = Date.now() + resultMs;
  const body = Buffer.from(JSON.stringify({ request_id: requestId }));
  let answeredAt = Date.now();
  for (let waits = 0; Date.now() < end;) {
    const timeoutMs = Math.max(1, Math.min(pollMs, end - Date.now()));
    const send = {
      method: 'POST',
      path: 'retrieve_future',
      body,
      timeoutMs,
      ...(signal && { signal }),
    } as const;
    let pause = pauseAfter(pauseMs, waits);
    try {
      const reply = await http.exchange(send);
      answeredAt = Date.now();
      const verdict = judge(reply, operation);
      if (verdict === 'done') return reply;
      if (reply.status >= 500 && waits >= MAX_FAILURES) throw statusError(reply, operation);
      if (reply.status === 402) pause = BILLING_PAUSE_MS;
      waits = verdict === 'wait' ? waits + 1 : 0;
      if (verdict === 'again') pause = reply.status === 408 ? 0 : pauseMs;
    } catch (error) {
      if (!isAway(error)) throw error;
      // A poll that ran out of time is the normal way to wait; a server that is away gets a pause.
      const isLongPoll = ConsortError.is(error) && error.code === 'trainer_timeout';
      if (!isLongPoll && Date.now() + pause - answeredAt >= submitMs) throw error;
      waits = isLongPoll ? 0 : waits + 1;
      if (isLongPoll) {
        answeredAt = Date.now();
        pause = 0;
      }
    }
    await http.pause(Math.min(pause, Math.max(0, end - Date.now())), signal);
  }
  throw new ConsortError('trainer_timeout', [operation, resultMs]);
}

function judge(reply: Reply, operation: string): Verdict {
  switch (reply.status) {
    case 200:
      return judgeOk(reply, operation);
    case 408:
      return 'again';
    case 402:
    case 429:
      return 'wait';
    case 400:
      throw new ConsortError('trainer_failed', [operation, messageOf(reply)]);
    case 410:
      throw new LostPromise(messageOf(reply));
    default:
      if (reply.status >= 500) return 'wait';
      throw statusError(reply, operation);
  }
}

function judgeOk(reply: Reply, operation: string): Verdict {
  // Only a pass answers in something else than JSON, and then it is a result.
  if (!String(reply.headers['content-type'] ?? '').includes('json')) return 'done';
  const value = reply.json();
  if (pendingReader.is(value)) return 'again';
  if (failedReader.is(value)) throw new ConsortError('trainer_failed', [operation, value.error]);
  return 'done';
}
