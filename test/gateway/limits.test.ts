/** Limits of keys: what they let through, over several gateways with one Redis, and while Redis is away. */
import { hash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import type { Totals } from '../../src/gateway/limits/limits.ts';
import { openStore } from '../../src/store/index.ts';
import { send, startGateway, type TestGateway } from '../support/gateway.ts';
import { startRedis } from '../support/redis.ts';
import { json, said, startUpstream, stream, HANG, chunk } from '../support/upstream.ts';

const upstream = await startUpstream();
const redis = await startRedis();
const store = await openStore(redis.url);
t.teardown(async () => {
  await upstream.close();
  await store.close();
  await redis.stop();
});
const shared: Totals = { ...store.counters, ...store.places };

/** A call of the model costs 10 + 5 × 10 = 60 micro-USD. */
const ANSWER = said('Hello.', { usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 } });
const CALL_USD = 60e-6;

let keys = 0;
/** A gateway, or several on one store, with one key that has these limits and a name of its own. */
async function startLimited(t: Test, limits: object, { count = 1, totals = shared, auth = {} } = {}) {
  const name = `app-${keys++}`;
  const key = `sk-canary-${name}`;
  const document = {
    server: { port: 0, heartbeatSeconds: 1 },
    auth: { required: true, keys: [{ name, sha256: hash('sha256', key), limits }], ...auth },
    models: ['ada', 'bob', 'cyd'].map((id) => ({
      id,
      provider: 'openai-compatible',
      baseUrl: upstream.url,
      retries: 0,
      price: { inputUsdPerMTok: 1, outputUsdPerMTok: 10 },
    })),
    pools: [{ id: 'team', members: ['ada', 'bob', 'cyd'] }],
    systems: [{ id: 'fuse', pool: 'team', protocol: 'fuse' }],
  };
  const gateways = await Promise.all(
    Array.from({ length: count }, () => startGateway(t, document, { totals })),
  );
  const ask = (more: object = {}, signal?: AbortSignal, at = 0) =>
    send(
      `${gateways[at]!.url}/v1/chat/completions`,
      { model: 'ada', messages: [{ role: 'user', content: 'Hi.' }], max_tokens: 5, ...more },
      { key, ...(signal && { signal }) },
    );
  return { ask, gateways, name };
}

const statuses = (answers: readonly { status: number }[]) =>
  Object.fromEntries([...Map.groupBy(answers, ({ status }) => status)].map(([s, all]) => [s, all.length]));
const times = <T>(count: number, make: (index: number) => Promise<T>) =>
  Promise.all(Array.from({ length: count }, (_, index) => make(index)));

/** Waits where a minute is about to end, so that a test has it to itself. */
async function inOneMinute() {
  const left = 60_000 - (Date.now() % 60_000);
  if (left < 8_000) await sleep(left + 10);
}

async function metric(gateway: TestGateway, name: string): Promise<string | undefined> {
  return new RegExp(`^${name.replace(/[{}"]/g, '\\$&')} (.*)$`, 'm').exec(await gateway.metrics())?.[1];
}

t.beforeEach(() => upstream.play(ANSWER));

t.test('three gateways on one Redis hold one limit of requests a minute', async (t) => {
  await inOneMinute();
  const { ask, gateways } = await startLimited(t, { requestsPerMinute: 60 }, { count: 3 });
  const answers = await times(150, (index) => ask({}, undefined, index % 3));
  t.strictSame(statuses(answers), { 200: 60, 429: 90 });
  const refused = answers.find(({ status }) => status === 429)!;
  t.match(refused.json.error, { code: 'rate_limited', type: 'rate_limit_error' });
  t.match(refused.json.error.message, /requestsPerMinute: 60/);
  const wait = Number(refused.headers.get('retry-after'));
  t.ok(wait >= 1 && wait <= 60, `${wait} s`);
  const counts = await Promise.all(
    gateways.map((one) => metric(one, 'consort_limit_refusals_total{limit="requestsPerMinute"}')),
  );
  t.equal(
    counts.reduce((sum, count) => sum + Number(count), 0),
    90,
  );
});

t.test('fifty requests at once against a budget for five spend no more than it', async (t) => {
  for (const [model, calls] of [
    ['ada', 1],
    ['consort/fuse', 4],
  ] as const) {
    const budget = 5 * calls * CALL_USD;
    const { ask, gateways } = await startLimited(t, { usdPerDay: budget }, { count: 2 });
    const answers = await times(50, (index) => ask({ model }, undefined, index % 2));
    const spent = () =>
      gateways.flatMap(({ outcomes }) => outcomes).reduce((sum, { costMicros }) => sum + costMicros, 0) / 1e6;
    t.ok(spent() <= budget + CALL_USD, `${spent()} of ${budget}`);
    t.ok(spent() > 0);
    t.match(answers.find(({ status }) => status === 429)?.json.error, {
      code: 'key_budget_spent',
      type: 'insufficient_quota',
    });
    // What was reserved and not spent is there again: one after the other, the budget is used up.
    for (let i = 0; i < 10; i++) await ask({ model });
    t.ok(spent() <= budget + CALL_USD, `${spent()} of ${budget}`);
    t.ok(spent() > budget / 2, `${spent()} of ${budget}`);
  }
});

t.test('what failed and what was cancelled is spent as what it cost', async (t) => {
  const { ask, gateways, name } = await startLimited(t, { usdPerDay: 1 });
  upstream.play(json({ error: { message: 'no' } }, 400));
  t.equal((await ask()).status, 400);
  upstream.play(ANSWER);
  await ask();
  const [gateway] = gateways;
  await sleep(50);
  const day = Math.floor(Date.now() / 86_400_000);
  const total = await store.counters.total(`limit/usdPerDay/${name}/${day}`);
  t.equal(
    total,
    gateway!.outcomes.reduce((sum, { costMicros }) => sum + costMicros, 0),
  );
  t.equal(total, 60);
});

t.test(
  'only so many requests run at once, whole or streamed, and a client that leaves frees its place',
  async (t) => {
    const { ask } = await startLimited(t, { concurrent: 2 });
    upstream.play(stream(chunk({ content: 'Well' }), HANG));
    const controls = [new AbortController(), new AbortController()];
    const running = controls.map(({ signal }) => ask({ stream: true }, signal).catch(() => 'left'));
    await upstream.until(2);
    const refused = await ask();
    t.equal(refused.status, 429);
    t.match(refused.json.error.message, /concurrent: 2/);
    controls[0]!.abort();
    await running[0];
    upstream.play(ANSWER);
    let after = await ask();
    for (let i = 0; i < 20 && after.status === 429; i++) {
      await sleep(20);
      after = await ask();
    }
    t.equal(after.status, 200);
    controls[1]!.abort();
    await running[1];
  },
);

t.test('tokens are counted as they come, and the prompt’s before', async (t) => {
  await inOneMinute();
  const { ask } = await startLimited(t, { tokensPerMinute: 40 });
  const answers = [];
  for (let i = 0; i < 5; i++) answers.push((await ask()).status);
  // 15 tokens each: 45 after three.
  t.strictSame(answers, [200, 200, 200, 429, 429]);
  const long = await ask({ messages: [{ role: 'user', content: 'x'.repeat(400) }] });
  t.equal(long.status, 429);
});

t.test('a key without limits asks the store nothing', async (t) => {
  const never = () => Promise.reject(new Error('the store was asked'));
  const totals = { reserve: never, settle: never, take: never, leave: never };
  const { ask, gateways } = await startLimited(t, undefined as never, { totals });
  t.equal((await ask()).status, 200);
  t.equal(await metric(gateways[0]!, 'consort_limits_alone'), '0');
});

t.test('while the store is away each process counts alone, and tells it afterwards', async (t) => {
  await inOneMinute();
  const { ask, gateways, name } = await startLimited(t, { requestsPerMinute: 5, usdPerDay: 1 });
  const [gateway] = gateways;
  t.equal((await ask()).status, 200);
  redis.signal('SIGSTOP');
  t.teardown(() => redis.signal('SIGCONT'));
  const begun = performance.now();
  const answers = await times(10, () => ask());
  t.ok(performance.now() - begun < 1_500, 'nobody waits long');
  t.strictSame(statuses(answers), { 200: 5, 429: 5 }, 'from zero');
  t.equal(await metric(gateway!, 'consort_limits_alone'), '1');
  redis.signal('SIGCONT');
  for (let i = 0; i < 60 && (await metric(gateway!, 'consort_limits_alone')) === '1'; i++) {
    await sleep(100);
    await ask();
  }
  t.equal(await metric(gateway!, 'consort_limits_alone'), '0');
  await sleep(100);
  const day = Math.floor(Date.now() / 86_400_000);
  const spent = gateway!.outcomes.reduce((sum, { costMicros }) => sum + costMicros, 0);
  t.equal(await store.counters.total(`limit/usdPerDay/${name}/${day}`), spent, 'exact in the end');
});

t.test('a configuration may refuse limited keys while the store is away', async (t) => {
  const gone = () => Promise.reject(new Error('away'));
  const totals = { reserve: gone, settle: gone, take: gone, leave: gone };
  const { ask } = await startLimited(t, { concurrent: 9 }, { totals, auth: { withoutStore: 'refuse' } });
  const refused = await ask();
  t.equal(refused.status, 503);
  t.equal(refused.json.error.code, 'store_unavailable');
  t.equal(refused.headers.get('retry-after'), '1');
});
