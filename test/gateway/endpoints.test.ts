/** One model in several places: the load is spread, and what fails in one is asked in another before its first word. */
import t, { type Test } from 'tap';
import { checkDocument } from '../../src/config/check.ts';
import { known } from '../../src/cli/known.ts';
import { catalogOf } from '../../src/cli/system.ts';
import { TASK } from '../support/cast.ts';
import { open, send, startGateway } from '../support/gateway.ts';
import {
  chunk,
  either,
  event,
  HANG,
  json,
  RESET,
  said,
  startUpstream,
  stream,
  type MockUpstream,
} from '../support/upstream.ts';

async function places(t: Test, count: number): Promise<MockUpstream[]> {
  const all = await Promise.all(Array.from({ length: count }, () => startUpstream()));
  t.teardown(() => Promise.all(all.map((one) => one.close())));
  for (const [index, one] of all.entries()) one.play(either(`From ${index}.`));
  return all;
}

async function siteOf(t: Test, urls: readonly string[], more: object = {}) {
  const gateway = await startGateway(t, {
    models: [
      {
        id: 'ada',
        provider: 'openai-compatible',
        endpoints: urls.map((baseUrl) => ({ baseUrl })),
        retries: 0,
        timeouts: { connectMs: 500, firstPartMs: 300, partMs: 300, totalMs: 2_000 },
        ...more,
      },
    ],
    pools: [{ id: 'team', members: ['ada'] }],
    systems: [{ id: 'team', pool: 'team', protocol: 'single' }],
  });
  const chat = `${gateway.url}/v1/chat/completions`;
  const ask = (stream = false, model = 'ada') => send(chat, { model, stream, messages: TASK.messages });
  return { gateway, chat, ask };
}

const portOf = (url: string) => new URL(url).host;
const countOf = (all: readonly MockUpstream[]) => all.map(({ received }) => received.length);

t.test('calls are spread over all places, the busy ones spared', async (t) => {
  const all = await places(t, 3);
  const { ask, chat } = await siteOf(
    t,
    all.map(({ url }) => url),
    { timeouts: {} },
  );
  for (let count = 0; count < 60; count++) t.equal((await ask()).status, 200);
  for (const count of countOf(all)) t.ok(count >= 5, `${countOf(all).join(', ')} of 60`);

  const control = new AbortController();
  for (const one of all) one.play(stream(chunk({ content: 'x' }), HANG));
  const held = Array.from({ length: 90 }, () =>
    open(chat, { model: 'ada', stream: true, messages: TASK.messages }, { signal: control.signal }),
  );
  await Promise.all(held);
  const counts = countOf(all);
  t.ok(Math.max(...counts) - Math.min(...counts) <= 4, `two choices even it out: ${counts.join(', ')}`);
  control.abort();
});

for (const [name, failure] of [
  ['a status that may pass', json({}, 503)],
  ['its own limits', json({}, 429, { 'retry-after': '60' })],
  ['a key that it does not know', json({ error: { message: 'Bad key' } }, 401)],
  ['no credit', json({}, 402)],
  ['silence', stream(HANG)],
  ['a reset before the first word', stream(chunk({ role: 'assistant', content: '' }), RESET)],
  ['an error before the first word', stream(event({ error: { message: 'busy' } }))],
  ['what is no answer', json({ hello: 1 })],
] as const) {
  t.test(`${name} in one place sends the call to another`, async (t) => {
    const [bad, good] = (await places(t, 2)) as [MockUpstream, MockUpstream];
    const { gateway, ask } = await siteOf(t, [bad.url, good.url]);
    bad.play(failure);
    let tried = 0;
    // Which place is drawn is chance: until the bad one was, and a few times more.
    for (let count = 0; count < 8 || bad.received.length === 0; count++) {
      const { status, text, headers } = await ask(true);
      t.equal(status, 200);
      t.match(text, /"content":"From "/);
      t.equal(text.match(/\[DONE\]/g)?.length, 1);
      const { calls } = await gateway.outcome(headers.get('x-consort-outcome'));
      t.match(calls, [{ status: 'ok', endpoint: portOf(good.url) }]);
      tried += (calls[0]?.attempts ?? 0) - 1;
    }
    t.equal(tried, bad.received.length);
    t.ok(tried >= 1);
    if (/limits|credit/.test(name)) t.equal(tried, 1, 'then it was left alone');
  });
}

t.test('a place that nobody listens at costs no answer', async (t) => {
  const [gone, good] = (await places(t, 2)) as [MockUpstream, MockUpstream];
  const { ask, gateway } = await siteOf(t, [gone.url, good.url]);
  await gone.close();
  gone.close = () => Promise.resolve();
  for (let count = 0; count < 40; count++) t.equal((await ask()).status, 200);
  const host = portOf(gone.url);
  t.match(
    await gateway.metrics(),
    `consort_circuit_state{model="ada",endpoint="${host}",state="open"} 1`,
    'its breaker is its own',
  );
  t.equal(good.received.length, 40);
});

t.test('what blames the request, and what has been heard in part, goes nowhere else', async (t) => {
  const all = await places(t, 2);
  const { ask } = await siteOf(
    t,
    all.map(({ url }) => url),
  );
  for (const one of all) one.play(json({ error: { message: 'Too long' } }, 400));
  t.match(await ask(), { status: 400 });
  t.equal(all[0]!.received.length + all[1]!.received.length, 1);
  for (const one of all) one.play(stream(chunk({ content: 'Six' }), { pauseMs: 20 }, RESET));
  t.match((await ask(true)).text, 'upstream_truncated');
  t.equal(all[0]!.received.length + all[1]!.received.length, 1);
});

t.test('when all places fail, each was asked once, and then the retries begin', async (t) => {
  const all = await places(t, 3);
  const { ask } = await siteOf(
    t,
    all.map(({ url }) => url),
    { retries: 2, breaker: { enabled: false } },
  );
  for (const one of all) one.play(json({}, 503));
  t.match(await ask(), { status: 502 });
  t.strictSame(
    countOf(all).reduce((sum, count) => sum + count, 0),
    5,
  );
  t.ok(countOf(all).every((count) => count >= 1));
});

t.test('when all places are left alone, the call is refused at once', async (t) => {
  const all = await places(t, 2);
  const { ask } = await siteOf(
    t,
    all.map(({ url }) => url),
  );
  for (const one of all) one.play(json({}, 429, { 'retry-after': '9' }));
  t.match(await ask(), { status: 429, json: { error: { code: 'upstream_status' } } });
  const refused = await ask();
  t.match(refused, { status: 429, json: { error: { code: 'circuit_open' } } });
  t.equal(refused.headers.get('retry-after'), '9');
  t.strictSame(countOf(all), [1, 1]);
});

t.test('a slow place is left to its call, and the other one gets the next', async (t) => {
  const both = (await places(t, 2)) as [MockUpstream, MockUpstream];
  const { ask, chat } = await siteOf(
    t,
    both.map(({ url }) => url),
    { timeouts: {} },
  );
  for (const one of both) one.play(stream(chunk({ content: 'Well' }), HANG));
  const control = new AbortController();
  await open(chat, { model: 'ada', stream: true, messages: TASK.messages }, { signal: control.signal });
  const [slow, other] = both[0].received.length === 1 ? both : [both[1], both[0]];
  other.play(either('At once.'));
  for (let count = 0; count < 30; count++) t.equal((await ask(true)).status, 200);
  t.equal(slow.received.length, 1);
  control.abort();
});

t.test('a key goes to the address that it was given for, and to no other', async (t) => {
  const [own, near, far] = (await places(t, 3)) as [MockUpstream, MockUpstream, MockUpstream];
  const keysAt = (one: MockUpstream) => [
    ...new Set(one.received.map(({ headers }) => headers.authorization)),
  ];
  const { ask } = await siteOf(t, [], {
    baseUrl: own.url,
    apiKey: 'sk-own',
    endpoints: [
      { baseUrl: `${own.url}/again` },
      { baseUrl: near.url, apiKey: 'sk-near' },
      { baseUrl: far.url },
    ],
  });
  for (let count = 0; count < 80; count++) await ask();
  t.strictSame(keysAt(own), ['Bearer sk-own']);
  t.strictSame([...new Set(own.received.map(({ path }) => path))].toSorted(), [
    '/v1/again/chat/completions',
    '/v1/chat/completions',
  ]);
  t.strictSame(keysAt(near), ['Bearer sk-near']);
  t.strictSame(keysAt(far), [undefined]);
  const shared = await siteOf(t, [near.url, far.url], { apiKey: 'sk-all' });
  near.play(said('x'));
  far.play(said('x'));
  for (let count = 0; count < 40; count++) await shared.ask();
  t.strictSame([keysAt(near), keysAt(far)], [['Bearer sk-all'], ['Bearer sk-all']]);
});

t.test('the configuration takes a model with places only, and refuses what is no address', (t) => {
  const check = (more: object) =>
    checkDocument({ models: [{ id: 'ada', provider: 'openai-compatible', ...more }] }, known);
  const endpoints = [{ baseUrl: 'http://a.example/v1', apiKey: 'sk-canary' }];
  const { config } = check({ endpoints });
  t.strictSame(check({ endpoints: [] }).problems, [
    {
      path: 'models.ada.baseUrl',
      message: 'is missing',
      remedy: 'Give the address up to and with /v1.',
    },
  ]);
  t.match(check({ endpoints: [{ baseUrl: 'http://' }] }).problems, [
    { path: 'models.ada.endpoints.0.baseUrl', message: 'is not an address' },
  ]);
  const other = check({ endpoints: [{ baseUrl: 'http://a.example/v1', apiKey: 'sk-other' }] });
  t.equal(catalogOf(config!).configHash, catalogOf(other.config!).configHash, 'keys are no part of the hash');
  t.end();
});

t.end();
