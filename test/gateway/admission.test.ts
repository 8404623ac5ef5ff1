/** A process that has enough to do says so at once, and keeps its pace for what it has taken on. */
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { Admission } from '../../src/gateway/limits/admission.ts';
import { TASK } from '../support/cast.ts';
import { open, send, startGateway } from '../support/gateway.ts';
import { chunk, either, event, said, startUpstream, stream } from '../support/upstream.ts';

t.test('runs are bounded exactly, and the event loop only while something runs', (t) => {
  const shed: string[] = [];
  let late = 0;
  let chance = 0;
  const gate = new Admission({
    maxRuns: 3,
    maxLoopDelayMs: 100,
    loopDelayMs: () => late,
    random: () => chance,
    onShed: (reason) => shed.push(reason),
  });
  const first = gate.enter(2);
  t.throws(() => gate.enter(2), { code: 'overloaded', status: 503, retryAfterMs: 1_000 });
  chance = 0.5;
  const second = gate.enter(1);
  t.throws(() => gate.check(), { code: 'overloaded', retryAfterMs: 2_500 }, 'not all come back together');
  second();
  gate.check();
  late = 101;
  t.throws(() => gate.check(), { code: 'overloaded', message: /100 ms behind/ });
  first();
  gate.check();
  t.equal(gate.running, 0);
  gate.enter(16)();
  t.strictSame(shed, ['runs', 'runs', 'loop'], 'an idle process takes a request of any size');
  t.end();
});

async function siteOf(t: Test, server: object) {
  const ada = await startUpstream();
  t.teardown(() => ada.close());
  const gateway = await startGateway(t, {
    server: { heartbeatSeconds: 1, ...server },
    models: [{ id: 'ada', provider: 'openai-compatible', baseUrl: ada.url, retries: 0 }],
    pools: [{ id: 'solo', members: ['ada'] }],
    systems: [{ id: 'solo', pool: 'solo', protocol: 'single' }],
  });
  const chat = `${gateway.url}/v1/chat/completions`;
  const body = { model: 'ada', messages: TASK.messages };
  return { ada, gateway, chat, body };
}

t.test('a burst beyond the bound is refused at once, and what was taken on is answered', async (t) => {
  const { ada, gateway, chat, body } = await siteOf(t, { maxRuns: 5 });
  const go = Promise.withResolvers<void>();
  ada.play(({ response }) => {
    void go.promise.then(() => response.end(`${chunk({ content: '16' }, 'stop')}${event('[DONE]')}`));
    return { headers: { 'content-type': 'text/event-stream' }, steps: [{ pauseMs: 10_000 }] };
  });
  const begun = performance.now();
  const asked = Array.from({ length: 40 }, () => send(chat, { ...body, stream: true }));
  await ada.until(5);
  const refused = await Promise.all(
    asked.map((one) => Promise.race([one, sleep(2_000, undefined, { ref: false })])),
  ).then((all) => all.filter((one) => one !== undefined && one.status === 503));
  t.equal(refused.length, 35);
  t.match(refused[0], { json: { error: { code: 'overloaded', type: 'api_error' } } });
  t.equal(refused[0]!.headers.get('retry-after'), '3');
  t.equal(refused[0]!.headers.get('x-consort-outcome'), null, 'it has not run');
  t.equal(ada.received.length, 5);
  t.equal((await send(`${gateway.url}/v1/models`)).status, 200, 'what runs no model is not refused');
  t.equal((await send(`${gateway.url}/v1/embeddings`, { model: 'ada', input: 'x' })).status, 503);
  go.resolve();
  const answered = (await Promise.all(asked)).filter(({ status }) => status === 200);
  t.equal(answered.length, 5);
  t.ok(answered.every(({ text }) => text.includes('16')));
  t.ok(performance.now() - begun < 10_000);
  ada.play(either('Again.'));
  t.equal((await send(chat, body)).status, 200, 'there is room again');
  t.match(await gateway.metrics(), 'consort_requests_shed_total{reason="runs"} 36');
  t.match(await gateway.metrics(), 'consort_requests_rejected_total{code="overloaded"} 36');
});

t.test('room is given back however a run ends', async (t) => {
  const { ada, chat, body } = await siteOf(t, { maxRuns: 1 });
  for (let round = 0; round < 3; round++) {
    ada.play(stream({ pauseMs: 5_000 }));
    const control = new AbortController();
    const leaving = open(chat, { ...body, stream: true }, { signal: control.signal });
    await ada.until(1);
    control.abort();
    await leaving.catch(() => undefined);
    await ada.received[0]!.left;
    ada.play({ status: 500, steps: ['{}'] });
    t.equal((await send(chat, body)).status, 502);
  }
  t.equal((await send(chat, { ...body, model: 'consort/solo', n: 2 })).status, 502, 'more than the bound');
});

t.test('an event loop that is late for long refuses work, one long pause does not', async (t) => {
  const { ada, gateway, chat, body } = await siteOf(t, { maxLoopDelayMs: 400 });
  const block = (ms: number) => {
    const until = performance.now() + ms;
    while (performance.now() < until);
  };
  ada.play(({ body: { stream: isStream } }) =>
    isStream === true ? stream(chunk({ content: 'a' }), { pauseMs: 30_000 }) : said('16'),
  );
  const control = new AbortController();
  await open(chat, { ...body, stream: true }, { signal: control.signal });
  block(1_500);
  t.equal((await send(chat, body)).status, 200);
  const busy = setInterval(() => block(650), 1);
  await sleep(2_800);
  const { status, json: refusal } = await send(chat, body);
  clearInterval(busy);
  t.equal(status, 503);
  t.match(refusal, { error: { code: 'overloaded', message: /400 ms behind/ } });
  await sleep(1_000);
  t.equal((await send(chat, body)).status, 200, 'and then it takes work again');
  control.abort();
  t.match(await gateway.metrics(), /consort_requests_shed_total\{reason="loop"\} [1-9]/);
});

t.end();
