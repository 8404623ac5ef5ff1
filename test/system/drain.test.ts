/** SIGTERM under live streams, on a real process: who can still be answered is, the others are told, and all is recorded. */
import { once } from 'node:events';
import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import type { Outcome } from '../../src/contract/outcome.ts';
import { openStore } from '../../src/store/index.ts';
import { Site } from '../support/serve.ts';
import { chunk, event, startUpstream, usageChunk, type Received } from '../support/upstream.ts';

const STREAMS = 20;
const messages = [{ role: 'user', content: 'How many legs have two spiders?' }];
const HELD = { messages: [{ role: 'user', content: 'You are held.' }] };

interface Heard {
  readonly status: number;
  readonly outcome: string;
  readonly connection: string | undefined;
  readonly text: Promise<string>;
}

/** One request over an agent that keeps its connections, as most clients do. Resolves at the head of its response. */
async function ask(url: string, agent: HttpAgent, fields: object): Promise<Heard> {
  const sent = httpRequest(`${url}/v1/chat/completions`, {
    method: 'POST',
    agent,
    headers: { 'content-type': 'application/json' },
  });
  sent.end(JSON.stringify({ messages, ...fields }));
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  let text = '';
  response.setEncoding('utf8').on('data', (piece: string) => (text += piece));
  return {
    status: response.statusCode ?? 0,
    outcome: String(response.headers['x-consort-outcome']),
    connection: response.headers.connection,
    text: once(response, 'end').then(() => text),
  };
}

async function siteOf(t: Test, drainSeconds: number) {
  const upstream = await startUpstream();
  const go = Promise.withResolvers<void>();
  // Says a word, and the rest when it is told to: `held` requests never.
  upstream.play(({ response, text }: Received) => {
    void go.promise.then(() => {
      if (text.includes('held')) return;
      response.end(`${chunk({ content: 'teen' }, 'stop')}${usageChunk(3, 2)}${event('[DONE]')}`);
    });
    const steps = [chunk({ content: 'Six' }), { pauseMs: 60_000 }];
    return { headers: { 'content-type': 'text/event-stream' }, steps };
  });
  const site = new Site({
    server: { port: 0, adminPort: 0, drainSeconds, heartbeatSeconds: 1 },
    models: [{ id: 'ada', provider: 'openai-compatible', baseUrl: upstream.url }],
    pools: [{ id: 'solo', members: ['ada'] }],
    systems: [{ id: 'solo', pool: 'solo', protocol: 'single' }],
  });
  const agent = new HttpAgent({ keepAlive: true });
  t.teardown(async () => {
    agent.destroy();
    site.close();
    await upstream.close();
  });
  const gateway = await site.serve();
  const ready = () => fetch(`${gateway.adminUrl}/readyz`).then(({ status }) => status);
  const recorded = async () => {
    const store = await openStore(`sqlite:${join(site.directory, '.consort/consort.db')}`);
    const outcomes: Outcome[] = [];
    for (const pool of await store.ledger.pools()) {
      for (const { entry } of await store.ledger.read(pool, '0-0', 1000)) {
        if (entry.kind === 'outcome') outcomes.push(entry.outcome);
      }
    }
    await store.close();
    return outcomes;
  };
  return { upstream, gateway, agent, go, ready, recorded };
}

t.test('streams end in their own time, and the process right after them', async (t) => {
  const { upstream, gateway, agent, go, ready, recorded } = await siteOf(t, 30);
  t.equal(await ready(), 200);
  const heard = await Promise.all(
    Array.from({ length: STREAMS }, (_, index) =>
      ask(gateway.url, agent, { model: index % 2 ? 'ada' : 'consort/solo', stream: true }),
    ),
  );
  await upstream.until(STREAMS);
  const stopped = gateway.kill('SIGTERM');
  for (let status = 200; status !== 503; await sleep(5)) status = await ready();
  t.match(await (await fetch(`${gateway.adminUrl}/metrics`)).text(), 'consort_draining 1');
  await t.rejects(ask(gateway.url, new HttpAgent(), { model: 'ada' }), { code: 'ECONNREFUSED' });
  await sleep(1_200);
  go.resolve();
  const texts = await Promise.all(heard.map(({ text }) => text));
  const ended = performance.now();
  for (const text of texts) {
    t.match(text, 'teen');
    t.ok(text.endsWith(event('[DONE]')));
    t.notMatch(text, /"error"/);
  }
  t.ok(
    texts.every((text) => text.includes(': keep-alive')),
    'hearts beat on',
  );
  await stopped;
  t.equal(await gateway.gone, 0);
  const waited = performance.now() - ended;
  t.ok(waited < 10_000, `kept connections do not hold the process: ${waited.toFixed(0)} ms`);
  const outcomes = await recorded();
  t.strictSame(outcomes.map(({ id }) => id).toSorted(), heard.map(({ outcome }) => outcome).toSorted());
  t.ok(outcomes.every(({ status, answer }) => status === 'ok' && answer === 'Sixteen'));
});

t.test('who is not done within the grace is told so, and nothing is lost', async (t) => {
  const { upstream, gateway, agent, go, ready, recorded } = await siteOf(t, 2);
  const start = (model: string, fields: object = {}) => ask(gateway.url, agent, { model, ...fields });
  const quick = await Promise.all(Array.from({ length: 10 }, () => start('ada', { stream: true })));
  const held = await Promise.all(
    ['ada', 'consort/solo'].flatMap((model) =>
      Array.from({ length: 5 }, () => start(model, { stream: true, ...HELD })),
    ),
  );
  const whole = start('consort/solo', HELD);
  await upstream.until(STREAMS + 1);
  const begun = performance.now();
  const stopped = gateway.kill('SIGTERM');
  for (let status = 200; status !== 503; await sleep(5)) status = await ready();
  go.resolve();
  for (const { text } of quick) t.match(await text, /teen[\s\S]*\[DONE\]/);
  for (const { text } of held) {
    const said = await text;
    t.match(said, 'Six');
    t.match(said, /"code":"shutting_down"/);
    t.equal(said.match(/"error"/g)?.length, 1);
    t.ok(said.endsWith(event('[DONE]')));
  }
  const told = performance.now() - begun;
  t.ok(told >= 1_900, `not before the grace was over: ${told.toFixed(0)} ms`);
  const refused = await whole;
  t.equal(refused.status, 503);
  t.match(await refused.text, 'shutting_down');
  await Promise.all(upstream.received.slice(10).map(({ left }) => left));
  await stopped;
  t.equal(await gateway.gone, 1, 'the exit code says that somebody went without an answer');
  const outcomes = await recorded();
  t.equal(outcomes.length, STREAMS + 1);
  const ended = outcomes.filter(({ errorCode }) => errorCode === 'shutting_down');
  t.equal(ended.length, 11);
  t.ok(
    ended.every(({ status }) => status === 'cancelled'),
    'no member is blamed for it',
  );
  t.equal(outcomes.filter(({ status }) => status === 'ok').length, 10);
});

t.end();
