/** A call that says nothing for a while is made a second time, and exactly one of the two is heard. */
import t, { type Test } from 'tap';
import { TASK } from '../support/cast.ts';
import { dataOf, open, send, startGateway } from '../support/gateway.ts';
import {
  chunk,
  HANG,
  json,
  said,
  spoken,
  startUpstream,
  stream,
  usageChunk,
  type MockUpstream,
  type Received,
  type Script,
} from '../support/upstream.ts';

const ROLE = chunk({ role: 'assistant', content: '' });

async function siteOf(t: Test, more: object = {}) {
  const ada = await startUpstream();
  t.teardown(() => ada.close());
  const gateway = await startGateway(t, {
    models: [
      {
        id: 'ada',
        provider: 'openai-compatible',
        baseUrl: ada.url,
        retries: 0,
        hedgeAfterMs: 60,
        price: { inputUsdPerMTok: 1, outputUsdPerMTok: 1 },
        ...more,
      },
    ],
  });
  const chat = `${gateway.url}/v1/chat/completions`;
  const ask = (stream = true) => send(chat, { model: 'ada', stream, messages: TASK.messages });
  const hedges = async (won: boolean) =>
    (await gateway.metrics()).includes(`consort_hedges_total{model="ada",won="${won}"} 1`);
  return { ada, gateway, chat, ask, hedges };
}

const textOf = (text: string) =>
  dataOf(text)
    .filter((data) => data !== '[DONE]')
    .map((data) => JSON.parse(data).choices[0]?.delta.content ?? '')
    .join('');

t.test('who answers in time is asked once', async (t) => {
  const { ada, ask, hedges } = await siteOf(t, { hedgeAfterMs: 1_000 });
  for (const isStream of [true, false]) {
    ada.play(stream(ROLE, chunk({ content: 'Six' }), { pauseMs: 1_200 }, ...spoken('teen').steps), said('x'));
    if (!isStream) ada.play(said('Sixteen'));
    t.equal((await ask(isStream)).status, 200);
    t.equal(ada.received.length, 1, 'a pause after the first word is no silence');
  }
  t.notOk((await hedges(true)) || (await hedges(false)));
});

for (const isStream of [true, false]) {
  t.test(`the second is heard when the first is silent, streamed: ${isStream}`, async (t) => {
    const { ada, gateway, ask, hedges } = await siteOf(t);
    ada.play(stream(ROLE, HANG), isStream ? spoken('se', 'cond') : said('second'));
    const { status, text, headers, json: body } = await ask(isStream);
    t.equal(status, 200);
    t.equal(isStream ? textOf(text) : body.choices[0].message.content, 'second');
    if (isStream) t.equal(dataOf(text).filter((data) => data.includes('"role"')).length, 1, 'one beginning');
    await ada.received[0]!.left;
    t.ok(await hedges(true));
    const { calls } = await gateway.outcome(headers.get('x-consort-outcome'));
    t.match(calls, [{ status: 'ok', attempts: 2 }]);
  });
}

t.test('the first is heard when it speaks after all, and the second is stopped', async (t) => {
  const { ada, ask, hedges } = await siteOf(t);
  ada.play(stream({ pauseMs: 150 }, ...spoken('fi', 'rst').steps), stream(ROLE, HANG));
  t.equal(textOf((await ask()).text), 'first');
  await ada.received[1]!.left;
  t.ok(await hedges(false));
});

t.test('what the one that is stopped has used up is counted', async (t) => {
  const { ada, gateway, ask } = await siteOf(t);
  ada.play(stream(usageChunk(100, 0), HANG), spoken('second'));
  const { headers } = await ask();
  const outcome = await gateway.outcome(headers.get('x-consort-outcome'));
  t.strictSame(outcome.usage, { inputTokens: 107, outputTokens: 1 });
});

t.test('one that fails leaves the race to the other', async (t) => {
  const late = ({ response }: Received): Script => {
    setTimeout(() => response.destroy(), 100);
    return stream(HANG);
  };
  for (const [first, second, expected] of [
    [stream({ pauseMs: 120 }, ...spoken('first').steps), json({}, 500), 'first'],
    [late, stream({ pauseMs: 120 }, ...spoken('second').steps), 'second'],
  ] as const) {
    const site = await siteOf(t);
    site.ada.play(first, second);
    t.equal(textOf((await site.ask()).text), expected);
    t.equal(site.ada.received.length, 2);
  }
  const { ada, ask } = await siteOf(t, { breaker: { enabled: false } });
  ada.play(json({}, 500));
  t.match(await ask(), { status: 502 });
  t.equal(ada.received.length, 1, 'a failure is no silence');
  ada.play(stream({ pauseMs: 100 }), stream({ pauseMs: 100 }));
  t.match(await ask(), { status: 502, json: { error: { code: /upstream_/ } } });
  t.equal(ada.received.length, 2);
});

t.test('a client that leaves stops both', async (t) => {
  const { ada, chat } = await siteOf(t);
  ada.play(stream(HANG));
  const control = new AbortController();
  const asked = open(
    chat,
    { model: 'ada', stream: true, messages: TASK.messages },
    { signal: control.signal },
  );
  await ada.until(2);
  control.abort();
  await asked.catch(() => undefined);
  await Promise.all(ada.received.map(({ left }) => left));
  t.equal(ada.received.length, 2);
});

t.test('the second goes to another endpoint', async (t) => {
  const bob: MockUpstream = await startUpstream();
  t.teardown(() => bob.close());
  const { ada, ask } = await siteOf(t, { endpoints: [{ baseUrl: bob.url }] });
  const both = [ada, bob];
  for (const one of both) one.play(stream(HANG));
  const slow = ask();
  await Promise.race(both.map((one) => one.until(1)));
  const other = both.find(({ received }) => received.length === 0)!;
  other.play(spoken('other'));
  t.equal(textOf((await slow).text), 'other');
  t.strictSame([ada.received.length, bob.received.length], [1, 1]);
});

t.test('a model that is slow for all is not asked twice for all', async (t) => {
  const { ada, ask } = await siteOf(t, { retryShare: 0 });
  ada.play(stream({ pauseMs: 150 }, ...spoken('late').steps));
  await Promise.all(Array.from({ length: 30 }, () => ask()));
  t.equal(ada.received.length, 40, 'the reserve of ten');
});

t.end();
