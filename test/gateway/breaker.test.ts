/** Endpoints that keep failing, that are busy, or that have no credit are left alone; nothing else makes them so. */
import t, { type Test } from 'tap';
import { ConsortError } from '../../src/contract/errors.ts';
import { Breaker, verdictOf, type CircuitState, type Verdict } from '../../src/gateway/upstreams/breaker.ts';
import { isOutOfCredit } from '../../src/gateway/upstreams/upstream-error.ts';
import { TASK } from '../support/cast.ts';
import { open, send, startGateway } from '../support/gateway.ts';
import {
  chunk,
  either,
  HANG,
  json,
  said,
  startUpstream,
  stream,
  type MockUpstream,
} from '../support/upstream.ts';

interface Bench {
  readonly breaker: Breaker;
  readonly states: CircuitState[];
  at: number;
  /** One call, if it may go, that ends like this. */
  call(verdict: Verdict, askedMs?: number): 'sent' | 'probe' | 'refused';
}

/** Uniform numbers from a seed (mulberry32). */
function rng(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

function benchOf(): Bench {
  const states: CircuitState[] = [];
  const options = { failures: 3, openMs: 1_000, coolMs: 60_000 };
  const breaker = new Breaker({ ...options, now: () => bench.at, onState: (state) => states.push(state) });
  const bench: Bench = {
    breaker,
    states,
    at: 5_000,
    call(verdict, askedMs) {
      if (breaker.waitMs() > 0) return 'refused';
      const isProbe = breaker.enter();
      breaker.end(verdict, isProbe, askedMs);
      return isProbe ? 'probe' : 'sent';
    },
  };
  return bench;
}

t.test('failures in a row open it; a probe closes it, or opens it for twice as long', (t) => {
  const bench = benchOf();
  const { breaker, states } = bench;
  for (const verdict of ['failure', 'failure', 'alive', 'failure', 'failure', 'nothing'] as const) {
    t.equal(bench.call(verdict), 'sent');
  }
  t.equal(breaker.state, 'closed', 'an answer in between begins the count anew');
  bench.call('failure');
  t.equal(breaker.state, 'open');
  t.equal(bench.call('alive'), 'refused');
  t.match(breaker.refusal('ada'), { code: 'circuit_open', status: 503, retryAfterMs: 1_000 });
  bench.at += 1_000;
  t.equal(breaker.state, 'half_open');
  t.equal(bench.call('failure'), 'probe');
  for (const restMs of [2_000, 4_000, 8_000, 8_000]) {
    t.equal(breaker.waitMs(), restMs);
    bench.at += restMs;
    bench.call('failure');
  }
  bench.at += 8_000;
  t.equal(bench.call('alive'), 'probe');
  t.equal(breaker.state, 'closed');
  for (let count = 0; count < 3; count++) t.equal(bench.call('failure'), 'sent');
  t.equal(breaker.waitMs(), 1_000, 'the next time begins with the shortest rest');
  t.strictSame(states.slice(0, 4), ['open', 'half_open', 'open', 'half_open']);
  t.strictSame(states.slice(-3), ['half_open', 'closed', 'open']);
  t.end();
});

t.test('most of many calls open it, too; an endpoint that fails now and then stays in use', (t) => {
  const mixed = benchOf();
  for (let call = 0; call < 20; call++) mixed.call(call % 4 === 0 ? 'alive' : 'nothing');
  for (let call = 0; call < 60 && mixed.breaker.state === 'closed'; call++) {
    mixed.call(call % 10 === 9 ? 'alive' : call % 10 === 4 ? 'nothing' : 'failure');
  }
  t.equal(mixed.breaker.state, 'open');
  const draw = rng(7);
  const flaky = benchOf();
  for (let call = 0; call < 5_000; call++) {
    flaky.call(draw() < 0.4 ? 'failure' : 'alive');
    flaky.at += 10;
  }
  t.strictSame(flaky.states, [], 'runs of three come all the time');
  const gone = benchOf();
  for (let call = 0; call < 500; call++) {
    gone.call('alive');
    gone.at += 10;
  }
  let sent = 0;
  for (; gone.call('failure') === 'sent'; sent++);
  t.equal(sent, 12, 'a busy endpoint that is suddenly gone is known by its long run');
  const slow = benchOf();
  for (let call = 0; call < 6; call++) {
    slow.call(call < 3 ? 'alive' : 'failure');
    slow.at += 4_000;
  }
  t.strictSame(slow.states, ['open'], 'and one that is seldom asked by a short one');
  t.end();
});

t.test('one probe at a time, unless it neither fails nor is heard', (t) => {
  const bench = benchOf();
  const { breaker } = bench;
  for (let count = 0; count < 3; count++) bench.call('failure');
  bench.at += 1_000;
  t.equal(breaker.enter(), true);
  t.equal(bench.call('alive'), 'refused', 'the probe is under way');
  breaker.end('nothing', true);
  t.equal(breaker.waitMs(), 0, 'a probe whose client has left makes room for another');
  t.equal(breaker.enter(), true);
  bench.at += 999;
  t.equal(breaker.waitMs(), 1);
  bench.at += 1;
  t.equal(bench.call('alive'), 'probe', 'a probe that hangs does not keep it open for ever');
  t.equal(breaker.state, 'closed');
  t.end();
});

t.test('what was sent before it opened changes nothing any more', (t) => {
  const bench = benchOf();
  for (let count = 0; count < 3; count++) bench.call('failure');
  bench.at += 500;
  bench.breaker.end('failure', false);
  bench.breaker.end('alive', false);
  t.equal(bench.breaker.waitMs(), 500);
  t.end();
});

t.test('a busy endpoint rests as long as it asks, and is then asked by all', (t) => {
  const bench = benchOf();
  const { breaker } = bench;
  bench.call('busy', 7_000);
  t.match(breaker.refusal('ada'), { code: 'circuit_open', status: 429, retryAfterMs: 7_000 });
  bench.at += 6_999;
  t.equal(bench.call('alive'), 'sent', 'a timer that fires early is no reason to refuse');
  t.equal(breaker.state, 'closed');
  t.equal(bench.call('busy', 0), 'sent');
  t.equal(bench.call('busy', 86_400_000), 'sent', 'nought is no rest');
  t.equal(breaker.waitMs(), 60_000, 'a minute is the most');
  bench.at += 60_000;
  bench.call('alive');
  for (const restMs of [1_000, 2_000, 4_000]) {
    bench.call('busy');
    t.equal(breaker.waitMs(), restMs, 'it does not say how long');
    bench.at += restMs;
  }
  bench.call('alive');
  bench.call('busy');
  t.equal(breaker.waitMs(), 1_000, 'an answer begins anew');
  bench.at += 1_000;
  bench.call('broke');
  t.equal(breaker.waitMs(), 60_000);
  bench.at += 60_000;
  t.equal(bench.call('broke'), 'probe', 'after a rest without credit one call is enough to know');
  t.end();
});

t.test('what a failure says about an endpoint', (t) => {
  const status = (code: number, retryable: boolean) =>
    verdictOf(new ConsortError('upstream_status', ['ada', code, ''], { status: code, retryable }));
  t.equal(status(429, true), 'busy');
  t.equal(status(502, true), 'failure');
  t.equal(status(400, false), 'alive');
  t.equal(status(502, false), 'alive', 'our key is wrong, not the endpoint');
  for (const code of ['upstream_unreachable', 'upstream_timeout', 'upstream_truncated'] as const) {
    t.equal(verdictOf(new ConsortError(code)), 'failure', code);
  }
  for (const code of ['client_gone', 'call_not_needed', 'deadline', 'upstream_stale', 'internal'] as const) {
    t.equal(verdictOf(new ConsortError(code)), 'nothing', code);
  }
  t.equal(verdictOf(new ConsortError('upstream_no_credit')), 'broke');
  t.end();
});

t.test('no credit is known by status and code, and not by what a message quotes', (t) => {
  const body = (error: object) => JSON.stringify({ error });
  for (const [status, text] of [
    [402, ''],
    [429, body({ code: 'insufficient_quota', message: 'You exceeded your current quota' })],
    [400, body({ type: 'insufficient_credits' })],
    [
      400,
      body({ type: 'invalid_request_error', message: 'Your credit balance is too low to access the API.' }),
    ],
    [403, JSON.stringify({ code: 'billing_not_active', message: 'x' })],
  ] as const) {
    t.equal(isOutOfCredit(status, text), true, `${status} ${text}`);
  }
  for (const [status, text] of [
    [429, body({ code: 'rate_limit_exceeded' })],
    [400, body({ message: 'Unknown value "insufficient_quota" of user' })],
    [400, body({ message: 'user: Your credit balance is too low' })],
    [400, 'insufficient_quota'],
    [500, body({ code: 'insufficient_quota' })],
  ] as const) {
    t.equal(isOutOfCredit(status, text), false, `${status} ${text}`);
  }
  t.end();
});

const ada = await startUpstream();
const bob = await startUpstream();
t.teardown(() => Promise.all([ada.close(), bob.close()]));

/** Longer than any test, and shorter than one. */
const BREAKER = { failures: 3, openMs: 60_000 };
const SHORT = { ...BREAKER, openMs: 150 };

async function siteOf(t: Test, more: object = {}) {
  ada.play(either('Ada: 16.'));
  bob.play(either('Bob: 16.'));
  const model = (id: string, { url }: MockUpstream) => ({
    id,
    provider: 'openai-compatible',
    baseUrl: url,
    retries: 0,
    breaker: BREAKER,
    ...more,
  });
  const gateway = await startGateway(t, {
    models: [model('ada', ada), model('bob', bob)],
    pools: [{ id: 'team', members: ['ada', 'bob'] }],
    systems: [{ id: 'vote', pool: 'team', protocol: 'vote', options: { earlyExit: 0 } }],
  });
  const chat = `${gateway.url}/v1/chat/completions`;
  const ask = (name: string, fields: object = {}) =>
    send(chat, { model: name, messages: TASK.messages, ...fields });
  const state = async () => {
    const found = /consort_circuit_state\{model="ada",endpoint="[^"]+",state="(\w+)"\} 1/.exec(
      await gateway.metrics(),
    );
    return found?.[1];
  };
  return { gateway, chat, ask, state };
}

t.test('a member that keeps failing is absent at once, and its team goes on', async (t) => {
  const { gateway, ask, state } = await siteOf(t);
  t.equal(await state(), 'closed');
  ada.play(json({}, 500));
  for (let count = 0; count < 3; count++) t.match(await ask('ada'), { status: 502 });
  t.equal(await state(), 'open');
  const refused = await ask('ada');
  t.match(refused, { status: 503, json: { error: { code: 'circuit_open', type: 'api_error' } } });
  t.equal(refused.headers.get('retry-after'), '60');
  const voted = await ask('consort/vote');
  t.match(voted, { status: 200, text: /Bob: 16/ });
  t.equal(ada.received.length, 3, 'nobody asked it any more');
  const outcome = await gateway.outcome(voted.headers.get('x-consort-outcome'));
  t.match(outcome, { intended: 3, realised: 2, absences: [{ member: 'ada', code: 'circuit_open' }] });
  t.match(
    outcome.calls.find(({ member }) => member === 'ada'),
    { attempts: 0, status: 'failed' },
  );
  t.match(await gateway.metrics(), /consort_circuit_transitions_total\{model="ada",.*state="open"\} 1/);
});

t.test('after its rest one call probes, and all follow as soon as it is heard', async (t) => {
  const { ask, state, chat } = await siteOf(t, { breaker: SHORT });
  ada.play(json({}, 500));
  for (let count = 0; count < 3; count++) await ask('ada');
  const rest = Date.now() + SHORT.openMs;
  while (Date.now() <= rest) await new Promise((resolve) => setTimeout(resolve, 5));
  t.equal(await state(), 'half_open');
  ada.play(stream(chunk({ content: 'Six' }), HANG), said('16'));
  const probe = await open(chat, { model: 'ada', stream: true, messages: TASK.messages });
  const reader = probe.body!.getReader();
  await reader.read();
  t.equal(await state(), 'closed', 'the probe is still speaking');
  t.match(await ask('ada'), { status: 200 });
  await reader.cancel();
});

t.test('clients that leave, or that give a call too little time, open nothing', async (t) => {
  const { gateway, ask, state, chat } = await siteOf(t);
  ada.play(stream(HANG));
  for (let count = 0; count < 10; count++) {
    const control = new AbortController();
    const leaving = open(chat, { model: 'ada', messages: TASK.messages }, { signal: control.signal });
    await ada.until(count + 1);
    control.abort();
    await t.rejects(leaving);
    await ada.received[count]!.left;
  }
  for (let count = 0; count < 5; count++) {
    await ask('consort/vote', { consort: { budget: { deadlineMs: 20 } } });
  }
  t.equal(await state(), 'closed');
  t.ok(gateway.outcomes.some(({ calls }) => calls.some(({ errorCode }) => errorCode === 'deadline')));
});

t.test('requests that the upstream refuses open nothing', async (t) => {
  const { ask, state } = await siteOf(t);
  ada.play(json({ error: { message: 'Too long' } }, 400));
  for (let count = 0; count < 10; count++) t.match(await ask('ada'), { status: 400 });
  t.equal(await state(), 'closed');
});

t.test('an upstream over its limits is left alone as long as it asks', async (t) => {
  const { ask, state } = await siteOf(t);
  ada.play(json({}, 429, { 'retry-after': '30' }), said('16'));
  t.match(await ask('ada'), { status: 429, json: { error: { code: 'upstream_status' } } });
  t.equal(await state(), 'open');
  const refused = await ask('ada');
  t.match(refused, { status: 429, json: { error: { code: 'circuit_open' } } });
  t.match(refused.headers.get('retry-after'), /^(?:30|2\d)$/);
  t.equal(ada.received.length, 1);
  const patient = await siteOf(t, { retries: 1 });
  ada.play(json({}, 429, { 'retry-after-ms': '50' }), said('16'));
  t.match(await patient.ask('ada'), { status: 200 }, 'who has met the limit waits for it');
});

for (const [name, script] of [
  ['402', json({ error: { message: 'Payment required' } }, 402)],
  [
    '400 without credit',
    json({ error: { type: 'invalid_request_error', message: 'Your credit balance is too low.' } }, 400),
  ],
  ['429 without quota', json({ error: { code: 'insufficient_quota', message: 'Quota' } }, 429)],
] as const) {
  t.test(`an account that has run dry rests: ${name}`, async (t) => {
    const { ask, state } = await siteOf(t, { retries: 2 });
    ada.play(script);
    t.match(await ask('ada'), { status: 502, json: { error: { code: 'upstream_no_credit' } } });
    t.equal(ada.received.length, 1, 'asking again brings no money');
    t.equal(await state(), 'open');
    t.match(await ask('ada'), { status: 503, json: { error: { code: 'circuit_open' } } });
    t.equal((await ask('ada')).headers.get('retry-after'), '60');
    t.match(await ask('consort/vote'), { status: 200, text: /Bob/ });
  });
}

t.test('a breaker can be switched off', async (t) => {
  const { ask, state } = await siteOf(t, { breaker: { enabled: false } });
  ada.play(json({}, 500));
  for (let count = 0; count < 10; count++) t.match(await ask('ada'), { status: 502 });
  t.equal(ada.received.length, 10);
  t.equal(await state(), undefined);
});

t.end();
