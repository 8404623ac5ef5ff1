/** Asking again: how often, how soon, and when not. */
import { setImmediate as tick } from 'node:timers/promises';
import t from 'tap';
import type { Answer, Call, Exchange, Send } from '../../src/contract/call.ts';
import { ConsortError } from '../../src/contract/errors.ts';
import type { Part } from '../../src/contract/part.ts';
import { RetryBudget } from '../../src/gateway/engine/retry-budget.ts';
import { retry, type Retries } from '../../src/gateway/engine/retry.ts';
import { memberNamed, TASK, USAGE } from '../support/cast.ts';
import { send, startGateway } from '../support/gateway.ts';
import {
  chunk,
  event,
  json,
  RESET,
  said,
  spoken,
  startUpstream,
  stream,
  type Received,
} from '../support/upstream.ts';

const CALL: Call = {
  slot: 'answer/ada',
  member: memberNamed('ada'),
  purpose: 'answer',
  messages: TASK.messages,
  sampling: {},
  sample: 0,
  reads: [],
  speaks: true,
};
const ANSWER: Answer = { message: { text: '16' }, finishReason: 'stop', usage: USAGE, from: ['ada'] };
const AT = { slot: 'answer/ada', choice: 0 };
const WORD: Part = { type: 'text-delta', ...AT, text: '16' };

interface Heard extends Exchange {
  readonly parts: Part[];
}

function exchangeOf(more: Partial<Exchange> = {}): Heard {
  const parts: Part[] = [];
  return {
    call: CALL,
    parts,
    emit: (part) => {
      parts.push(part);
    },
    signal: new AbortController().signal,
    stream: false,
    note: { attempts: 0, reused: false, lostUsage: { inputTokens: 0, outputTokens: 0 } },
    ...more,
  };
}

/** Fails with these in turn, then answers. */
function failing(...errors: readonly Error[]): Send & { count: number } {
  const send = Object.assign(
    () => {
      const error = errors[send.count++];
      return error === undefined ? Promise.resolve(ANSWER) : Promise.reject(error);
    },
    { count: 0 },
  );
  return send;
}

const passing = () => new ConsortError('upstream_unreachable', ['ada', 'ECONNRESET']);

const SILENT = { onRetry: () => undefined, onWithheld: () => undefined };

/** So many retries, of a budget that nobody else uses. */
function times(most: number, share = 1): () => Retries {
  const budget = new RetryBudget(share, () => 0);
  return () => ({ most, budget });
}

t.test('retry: asks again as often as allowed after what may pass, and counts the attempts', async (t) => {
  const retried: string[] = [];
  const retrying = retry({
    retriesOf: times(2),
    jitter: () => 0,
    onRetry: (alias, code) => retried.push(`${alias} ${code}`),
    onWithheld: () => undefined,
  });
  const exchange = exchangeOf();
  t.equal(await retrying(failing(passing(), passing()))(exchange), ANSWER);
  t.equal(exchange.note.attempts, 3);
  t.strictSame(retried, ['ada upstream_unreachable', 'ada upstream_unreachable']);
  const exhausted = failing(passing(), passing(), passing());
  await t.rejects(retrying(exhausted)(exchangeOf()), { code: 'upstream_unreachable' });
  t.equal(exhausted.count, 3);
  const final = failing(new ConsortError('upstream_status', ['ada', 400, 'no'], { retryable: false }));
  await t.rejects(retrying(final)(exchangeOf()), { code: 'upstream_status' });
  t.equal(final.count, 1);
  const foreign = failing(new TypeError('a fault of ours'));
  await t.rejects(retrying(foreign)(exchangeOf()), { code: 'internal' });
  t.equal(foreign.count, 1);
});

t.test('retry: asks no more once anything was heard', async (t) => {
  let count = 0;
  const send: Send = async ({ emit }) => {
    count++;
    await emit(WORD);
    throw passing();
  };
  const retrying = retry({ retriesOf: times(5), jitter: () => 0, ...SILENT });
  await t.rejects(retrying(send)(exchangeOf()), { code: 'upstream_unreachable' });
  t.equal(count, 1);
});

t.test(
  'retry: waits longer each time, or as long as it was asked to, and no longer than its call',
  async (t) => {
    const timed = async (jitter: number, ...errors: ConsortError[]) => {
      const retrying = retry({ retriesOf: times(3), jitter: () => jitter, ...SILENT });
      const begun = performance.now();
      await retrying(failing(...errors))(exchangeOf());
      return performance.now() - begun;
    };
    t.ok((await timed(0.2, passing(), passing())) >= 58, '20 + 40 ms');
    const asked = new ConsortError('upstream_status', ['ada', 429, ''], { retryAfterMs: 60 });
    t.ok((await timed(0, asked)) >= 58);
    const control = new AbortController();
    const long = new ConsortError('upstream_status', ['ada', 429, ''], { retryAfterMs: 20_000 });
    const retrying = retry({ retriesOf: times(3), jitter: () => 0, ...SILENT });
    const waiting = retrying(failing(long))(exchangeOf({ signal: control.signal }));
    await tick();
    const reason = new ConsortError('client_gone');
    control.abort(reason);
    await t.rejects(waiting, reason);
    const endless = new ConsortError('upstream_status', ['ada', 429, ''], { retryAfterMs: 31_000 });
    await t.rejects(retrying(failing(endless))(exchangeOf()), endless, 'half a minute is the most');
  },
);

t.test('retry: an outage is multiplied by the share of the budget and no more', async (t) => {
  let now = 0;
  const budget = new RetryBudget(0.25, () => now);
  const withheld: string[] = [];
  const retrying = retry({
    retriesOf: () => ({ most: 2, budget }),
    jitter: () => 0,
    onRetry: () => undefined,
    onWithheld: (alias) => withheld.push(alias),
  });
  let sent = 0;
  const down: Send = () => {
    sent++;
    return Promise.reject(passing());
  };
  for (let call = 0; call < 1000; call++) {
    await t.rejects(retrying(down)(exchangeOf()), { code: 'upstream_unreachable' });
  }
  t.equal(sent, 1000 + 10 + 250, 'the reserve, and a quarter of the calls');
  t.ok(withheld.length > 700);
  now = 3_000;
  sent = 0;
  await t.rejects(retrying(down)(exchangeOf()));
  t.equal(sent, 3, 'three seconds have brought back three attempts, of which a call takes two');
  now = 1e9;
  const spare = Array.from({ length: 50 }, () => budget.take()).filter(Boolean);
  t.equal(spare.length, 10, 'rest brings back the reserve and no more');
  const saved = new RetryBudget(0.2, () => 0);
  for (let call = 0; call < 10_000; call++) saved.earn();
  t.equal(
    Array.from({ length: 500 }, () => saved.take()).filter(Boolean).length,
    100,
    'nor is more saved up',
  );
});

t.test('retry: a kept connection that was closed costs no retry, once a call', async (t) => {
  const stale = () => new ConsortError('upstream_stale', ['ada', 'ECONNRESET']);
  const retried: string[] = [];
  const retrying = retry({
    retriesOf: times(0, 0),
    jitter: () => 1,
    onRetry: (alias, code) => retried.push(`${alias} ${code}`),
    onWithheld: () => undefined,
  });
  const exchange = exchangeOf();
  t.equal(await retrying(failing(stale()))(exchange), ANSWER);
  t.equal(exchange.note.attempts, 2);
  t.strictSame(retried, ['ada upstream_stale']);
  const twice = failing(stale(), stale());
  await t.rejects(retrying(twice)(exchangeOf()), { code: 'upstream_stale' });
  t.equal(twice.count, 2);
});

t.test('a kept connection that dies under a request is replaced, and only then', async (t) => {
  const upstream = await startUpstream();
  t.teardown(() => upstream.close());
  const gateway = await startGateway(t, {
    models: [{ id: 'ada', provider: 'openai-compatible', baseUrl: upstream.url, retries: 0 }],
  });
  const ask = (stream = false) =>
    send(`${gateway.url}/v1/chat/completions`, { model: 'ada', stream, messages: TASK.messages });
  const cut = ({ response }: Received) => {
    response.socket?.resetAndDestroy();
    return said('never heard');
  };
  upstream.play(said('one'), cut, said('two'));
  t.match((await ask()).text, 'one');
  t.match(await ask(), { status: 200, text: /two/ }, 'sent once more');
  t.equal(upstream.received.length, 3);
  t.match(await gateway.metrics(), 'consort_retries_total{model="ada",reason="upstream_stale"} 1');

  upstream.play(cut, cut, said('three'));
  t.match(await ask(), { status: 502, json: { error: { code: 'upstream_unreachable' } } }, 'not twice');
  t.equal(upstream.received.length, 2);

  upstream.play(cut, said('four'));
  t.match(
    await ask(),
    { status: 502, json: { error: { code: 'upstream_unreachable' } } },
    'a new one has failed',
  );
  t.equal(upstream.received.length, 1);

  upstream.play(said('five'), stream(RESET), said('six'));
  await ask();
  t.match(await ask(true), { status: 502 }, 'the head of a response had come');
  t.equal(upstream.received.length, 2);

  upstream.play(spoken('se', 'ven'), stream(chunk({ content: 'ei' }), { pauseMs: 20 }, RESET), said('eight'));
  await ask(true);
  const { text } = await ask(true);
  t.match(text, 'upstream_truncated');
  t.ok(text.endsWith(event('[DONE]')));
  t.equal(upstream.received.length, 2, 'words had come');
});

t.test('limits that an upstream names are waited for', async (t) => {
  const upstream = await startUpstream();
  t.teardown(() => upstream.close());
  const gateway = await startGateway(t, {
    models: [{ id: 'ada', provider: 'openai-compatible', baseUrl: upstream.url, retries: 1 }],
  });
  upstream.play(json({}, 429, { 'x-ratelimit-reset-tokens': '120ms' }), said('now'));
  const begun = performance.now();
  t.match(await send(`${gateway.url}/v1/chat/completions`, { model: 'ada', messages: TASK.messages }), {
    status: 200,
  });
  t.ok(performance.now() - begun >= 118);
});

t.end();
