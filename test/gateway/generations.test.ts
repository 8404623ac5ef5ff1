import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { checkDocument } from '../../src/config/check.ts';
import { startGateway } from '../../src/cli/gateway.ts';
import { known } from '../../src/cli/known.ts';
import { catalogOf } from '../../src/cli/system.ts';
import { ConsortError } from '../../src/contract/errors.ts';
import type { Outcome } from '../../src/contract/outcome.ts';
import type { Release } from '../../src/contract/release.ts';
import { Generations } from '../../src/gateway/generations.ts';
import { ReleaseBook } from '../../src/policy/release/book.ts';
import { servedName } from '../../src/policy/release/machine.ts';
import { openStore } from '../../src/store/index.ts';

interface Asked {
  readonly prompt: string;
  readonly model: string;
}

/** An upstream that says the name of the model it was asked for, word by word, slowly. */
async function startEcho(t: Test) {
  const asked: Asked[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const body = JSON.parse(Buffer.concat(chunks).toString());
      const prompt = /prompt-\d+/.exec(JSON.stringify(body.messages))?.[0] ?? '';
      asked.push({ prompt, model: body.model });
      void speak(response, body.model, body.stream);
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  return { asked, baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1` };
}

async function speak(response: ServerResponse, model: string, stream: boolean): Promise<void> {
  const head = { id: 'c', object: 'chat.completion.chunk', created: 0, model };
  const usage = { prompt_tokens: 1, completion_tokens: 3, total_tokens: 4 };
  if (!stream) {
    const message = { role: 'assistant', content: `${model} ${model} ${model}` };
    const choices = [{ index: 0, message, finish_reason: 'stop' }];
    await sleep(10);
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ ...head, object: 'chat.completion', choices, usage }));
    return;
  }
  response.setHeader('content-type', 'text/event-stream');
  const say = (delta: object, finish: string | null = null, more: object = {}) =>
    response.write(
      `data: ${JSON.stringify({ ...head, choices: [{ index: 0, delta, finish_reason: finish }], ...more })}\n\n`,
    );
  for (let word = 0; word < 3; word++) {
    say({ content: `${model} ` });
    await sleep(5);
  }
  say({}, 'stop', { usage });
  response.end('data: [DONE]\n\n');
}

function configOf(baseUrl: string, directory: string) {
  const model = (id: string) => ({ id, provider: 'openai-compatible', baseUrl, model: `${id}-base` });
  const { config, problems } = checkDocument(
    {
      server: { port: 0, adminPort: 0 },
      store: { url: `sqlite:${directory}/consort.db`, spoolDirectory: `${directory}/spool` },
      models: [model('policy'), model('partner'), { id: 'sim-atlas', provider: 'sim', model: 'atlas' }],
      pools: [{ id: 'pair', members: ['policy', 'partner'] }],
      systems: [{ id: 'debate', pool: 'pair', protocol: 'debate', options: { rounds: 2 } }],
    },
    known,
  );
  if (!config) throw new Error(JSON.stringify(problems));
  return config;
}

/** A version that may go live. */
async function probed(book: ReleaseBook, version: number): Promise<Release> {
  const policy = 'policy';
  const servedAs = servedName(policy, version);
  const artifact = { uri: `file:/loras/${servedAs}`, sha256: String(version).padStart(64, '0') };
  const trainedOn = { run: 'r', step: version };
  let release = await book.open({ policy, version, servedAs, base: 'b', artifact, trainedOn }, 'exported');
  for (const stage of ['verified', 'loaded', 'probed'] as const) {
    release = await book.move(release, stage, 'as in a test');
  }
  return release;
}

/** One streamed request, read to its end. */
async function ask(url: string, model: string, prompt: string) {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model, stream: true, messages: [{ role: 'user', content: prompt }] }),
  });
  const text = await response.text();
  const id = response.headers.get('x-consort-outcome') ?? '';
  return { prompt, model, status: response.status, text, id };
}

t.test('live releases change back and forth under streamed requests: none fails, none mixes', async (t) => {
  const directory = t.testdir();
  const { asked, baseUrl } = await startEcho(t);
  const config = configOf(baseUrl, directory);
  const store = await openStore(config.store.url);
  const book = new ReleaseBook(store.releases, Date.now);
  await book.promote(await probed(book, 1), 'the first');
  const gateway = await startGateway({ config, notice: null }, {}, pino({ level: 'silent' }));

  const first = await ask(gateway.url, 'policy', 'prompt-0');
  t.match(first.text, 'policy-v000001', 'a gateway that starts knows the live version');

  const over = new AbortController();
  let number = 1;
  const results: Awaited<ReturnType<typeof ask>>[] = [];
  const client = async (model: string) => {
    while (!over.signal.aborted) results.push(await ask(gateway.url, model, `prompt-${number++}`));
  };
  const clients = Array.from({ length: 12 }, (_, i) => client(i % 3 ? 'consort/debate' : 'policy'));
  for (let version = 2; version <= 4; version++) {
    await book.promote(await probed(book, version), 'better');
    await seen(asked, servedName('policy', version));
    await book.rollBack('policy', 'worse');
    await seen(asked, servedName('policy', 1));
  }
  over.abort();
  await Promise.all(clients);

  t.ok(results.length > 100, `${results.length} requests`);
  t.same(
    results.filter(({ status, text }) => status !== 200 || text.includes('"error"')),
    [],
    'no request fails',
  );
  t.ok(results.every(({ text }) => text.trimEnd().endsWith('data: [DONE]')));
  const versions = new Map<string, Set<string>>();
  for (const { prompt, model } of asked) {
    if (!model.startsWith('policy')) continue;
    versions.set(prompt, (versions.get(prompt) ?? new Set()).add(model));
  }
  t.ok(
    [...versions.values()].every(({ size }) => size === 1),
    'all calls of a request name one version',
  );
  const used = new Set([...versions.values()].flatMap((names) => [...names]));
  t.same(
    [...used].toSorted(),
    [1, 2, 3, 4].map((version) => servedName('policy', version)),
  );
  await recordsAgree(t, gateway.url, results, versions);
  const metrics = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
  t.match(metrics, 'consort_policy_version{model="policy"} 1\n');
  t.match(metrics, 'consort_releases_stale 0\n');
  await gateway.close();
  await store.close();
});

/** Waits until the newest calls of the policy name this version. */
async function seen(asked: readonly Asked[], model: string): Promise<void> {
  const from = asked.length;
  while (!asked.slice(from).some((one) => one.model === model)) await sleep(10);
}

async function recordsAgree(
  t: Test,
  url: string,
  results: readonly Awaited<ReturnType<typeof ask>>[],
  versions: ReadonlyMap<string, ReadonlySet<string>>,
): Promise<void> {
  const revisions = new Map<string, string>();
  const poolRevisions = new Set<string>();
  for (const { id, prompt } of results) {
    const response = await fetch(`${url}/v1/outcomes/${id}`);
    const outcome = (await response.json()) as Outcome;
    const member = outcome.plan.members.find(({ alias }) => alias === 'policy');
    const [served] = versions.get(prompt) ?? [];
    if (member?.model !== served) t.fail(`outcome ${id} names ${member?.model}, and ${served} was asked`);
    const known = revisions.get(member?.model ?? '') ?? member?.revision;
    if (member?.revision !== known) t.fail('one version, one revision');
    revisions.set(member?.model ?? '', member?.revision ?? '');
    if (outcome.plan.system === 'debate') poolRevisions.add(outcome.plan.pool.revision);
    const calls = outcome.calls.filter((call) => call.member === 'policy');
    if (calls.some(({ revision }) => revision !== known)) t.fail('a call records the revision of its plan');
    if (outcome.status !== 'ok') t.fail(`outcome ${id} is ${outcome.status}`);
  }
  t.equal(new Set(revisions.values()).size, 4, 'each version has a revision of its own');
  t.equal(poolRevisions.size, 4, 'and the pool with it, so that statistics start anew');
}

t.test('GET /v1/releases lists the versions and how each came to its stage', async (t) => {
  const { baseUrl } = await startEcho(t);
  const config = configOf(baseUrl, t.testdir());
  const store = await openStore(config.store.url);
  const book = new ReleaseBook(store.releases, () => 5);
  await book.promote(await probed(book, 1), 'the first');
  await probed(book, 2);
  const gateway = await startGateway({ config, notice: null }, {}, pino({ level: 'silent' }));
  const response = await fetch(`${gateway.url}/v1/releases?policy=policy`);
  const { data } = (await response.json()) as { data: Partial<Release>[] };
  t.match(data, [
    { version: 2, stage: 'probed', served_as: 'policy-v000002' },
    { version: 1, stage: 'live' },
  ]);
  t.same(data[1]?.history?.at(-1), { from: 'probed', to: 'live', at: 5, reason: 'the first' });
  t.notMatch(JSON.stringify(data), '/loras', 'where the artifact lies stays inside');
  const none = await fetch(`${gateway.url}/v1/releases?policy=nobody`);
  t.same(await none.json(), { object: 'list', data: [], has_more: false });
  t.equal((await fetch(`${gateway.url}/v1/releases?version=1`)).status, 400);
  await gateway.close();
  await store.close();
});

t.test('a store that does not answer leaves the versions in use, and is reported once', async (t) => {
  const config = configOf('http://127.0.0.1:9/v1', t.testdir());
  let isAway = false;
  let live: Release | undefined;
  let looks = 0;
  const heard: string[] = [];
  const generations = new Generations({
    config,
    build: catalogOf,
    releases: {
      policies: async () => {
        looks++;
        if (isAway) throw new ConsortError('store_unavailable', ['as scripted']);
        return ['policy', 'sim-atlas', 'a policy of another gateway'];
      },
      live: async (policy) => (policy === 'policy' ? live : undefined),
    },
    onChange: (policy, release) => heard.push(`${policy} ${release?.version ?? 'base'}`),
    onStale: (error) => heard.push(ConsortError.from(error).code),
  });
  const modelNow = () => generations.catalog().systems.get('policy')?.pool.members[0]?.model;
  const before = generations.catalog();
  await generations.refresh();
  t.equal(generations.catalog(), before, 'nothing is live: the same generation');
  t.equal(modelNow(), 'policy-base');

  live = releaseOf(3);
  await Promise.all([generations.refresh(), generations.refresh()]);
  t.equal(modelNow(), 'policy-v000003');
  t.not(generations.catalog(), before);
  t.equal(before.systems.get('policy')?.pool.members[0]?.model, 'policy-base', 'a generation never changes');
  t.equal(looks, 2, 'looks that overlap are one');

  isAway = true;
  await generations.refresh();
  await generations.refresh();
  t.equal(modelNow(), 'policy-v000003');
  t.same([...generations.versions], [['policy', 3]]);
  t.ok(generations.isStale);
  isAway = false;
  live = undefined;
  await generations.refresh();
  t.equal(modelNow(), 'policy-base');
  t.notOk(generations.isStale);
  t.same(heard, ['policy 3', 'store_unavailable', 'policy base']);
  generations.follow(1);
  await sleep(30);
  await generations.close();
  const last = looks;
  t.ok(last > 6);
  await sleep(20);
  t.equal(looks, last, 'nobody looks after the end');
});

t.test('the same name with other weights is another revision', async (t) => {
  const config = configOf('http://127.0.0.1:9/v1', t.testdir());
  const revisions: (string | undefined)[] = [];
  for (const sha256 of ['a', 'b', 'a'].map((letter) => letter.repeat(64))) {
    const release = { ...releaseOf(1), artifact: { uri: 'file:/x', sha256 } };
    const releases = { policies: async () => ['policy'], live: async () => release };
    const quiet = { onChange: () => undefined, onStale: () => t.fail('it answers') };
    const generations = new Generations({ config, build: catalogOf, releases, ...quiet });
    await generations.refresh();
    revisions.push(generations.catalog().systems.get('consort/debate')?.pool.revision);
  }
  t.equal(revisions[0], revisions[2]);
  t.not(revisions[0], revisions[1]);
});

function releaseOf(version: number): Release {
  return {
    v: 1,
    policy: 'policy',
    version,
    servedAs: servedName('policy', version),
    base: 'b',
    artifact: { uri: 'file:/x', sha256: '0'.repeat(64) },
    trainedOn: { run: 'r', step: version },
    stage: 'live',
    history: [],
  };
}
