/** Conversations in which a member of a team calls tools, over two gateways with one store. */
import { hash } from 'node:crypto';
import { join } from 'node:path';
import OpenAI from 'openai';
import t from 'tap';
import type { Turns } from '../../src/contract/store.ts';
import { openStore } from '../../src/store/index.ts';
import { send, startGateway, type TestGateway } from '../support/gateway.ts';
import {
  chunk,
  either,
  event,
  json,
  startUpstream,
  stream,
  type MockUpstream,
  type Received,
  type Script,
} from '../support/upstream.ts';

const names = ['ada', 'bob', 'cyd'] as const;
const upstreams = { ada: await startUpstream(), bob: await startUpstream(), cyd: await startUpstream() };
const { ada, bob, cyd } = upstreams;
t.teardown(() => Promise.all(Object.values(upstreams).map((one) => one.close())));

const documentOf = (more: object = {}) => ({
  server: { port: 0, heartbeatSeconds: 1 },
  auth: {
    required: true,
    keys: ['one', 'two'].map((name) => ({ name, sha256: hash('sha256', `sk-canary-${name}`) })),
  },
  models: names.map((id) => ({ id, provider: 'openai-compatible', baseUrl: upstreams[id].url, retries: 0 })),
  pools: [{ id: 'team', members: names }],
  systems: ['single', 'fuse'].map((protocol) => ({ id: protocol, pool: 'team', protocol, ...more })),
});

const file = `sqlite:${join(t.testdir(), 'turns.db')}`;
const store = await openStore(file);
t.teardown(() => store.close());
const gateway = await startGateway(t, documentOf(), { turns: store.turns });
const replica = await startGateway(t, documentOf(), { turns: store.turns });

const question = { role: 'user', content: 'How many legs have two spiders?' };
const tools = [{ type: 'function', function: { name: 'legs', parameters: { type: 'object' } } }];
const call = (id: string) => ({ id, type: 'function', function: { name: 'legs', arguments: '{"n":2}' } });
const result = (id: string, content = '8') => ({ role: 'tool', tool_call_id: id, content });

let called = 0;
/** Calls a tool under a new id where it may, unless it has been told a result. */
function calling(answer = 'I say 16.'): (request: Received) => Script {
  return (request) => {
    const { body } = request;
    if (!body['tools'] || JSON.stringify(body['messages']).includes('"tool"')) return either(answer)(request);
    const toolCall = call(`call-${called++}`);
    if (body['stream'] === true) {
      const delta = { tool_calls: [{ index: 0, ...toolCall }] };
      return stream(chunk(delta), chunk({}, 'tool_calls'), event('[DONE]'));
    }
    const message = { role: 'assistant', content: null, tool_calls: [toolCall] };
    return json({ choices: [{ index: 0, message, finish_reason: 'tool_calls' }] });
  };
}

const chat = (
  at: TestGateway,
  system: string,
  messages: readonly unknown[],
  more: object = {},
  key = 'one',
) =>
  send(
    `${at.url}/v1/chat/completions`,
    { model: `consort/${system}`, messages, tools, ...more },
    { key: `sk-canary-${key}` },
  );

/** The first turn, and the conversation as the client sends it back. */
async function firstTurn(system: string, more: object = {}) {
  const { json: body, headers } = await chat(gateway, system, [question], more);
  const { message } = body.choices[0];
  const first = await gateway.outcome(headers.get('x-consort-outcome'));
  return { message, first, back: [question, message, result(message.tool_calls[0].id)] };
}

const requests = (upstream: MockUpstream) => upstream.received.map(({ body }) => body);

t.beforeEach(() => {
  for (const one of Object.values(upstreams)) one.play(calling());
});

t.test('a tool turn goes on with the member that called, and with what it had read', async (t) => {
  bob.play(calling('A draft of bob.'));
  const { message, first, back } = await firstTurn('fuse');
  t.equal(first.plan.resumes, undefined);
  const fusion = requests(ada)[1]?.['messages'];
  t.match(JSON.stringify(fusion), 'A draft of bob.');
  for (const at of [replica, gateway]) {
    const asked = ada.received.length + bob.received.length + cyd.received.length;
    const { json: body, headers } = await chat(at, 'fuse', back);
    t.equal(body.choices[0].message.content, 'I say 16.');
    t.equal(ada.received.length + bob.received.length + cyd.received.length, asked + 1, 'one call');
    const sent = requests(ada).at(-1);
    t.strictSame(sent?.['messages'], [...(fusion as unknown[]), message, back[2]]);
    t.strictSame(sent?.['tools'], tools);
    const outcome = await at.outcome(headers.get('x-consort-outcome'));
    t.match(outcome, {
      status: 'ok',
      plan: { resumes: first.id, mask: 7, cluster: first.plan.cluster, choice: { source: 'config' } },
      calls: [{ slot: 'resume/ada', purpose: 'act' }],
    });
    t.strictSame(new Set(outcome.answerFrom), new Set(first.answerFrom), 'the drafts are in it still');
    t.not(outcome.id, first.id);
  }
});

t.test('turn after turn, streamed and with the official client', async (t) => {
  const client = new OpenAI({ apiKey: 'sk-canary-one', baseURL: `${gateway.url}/v1`, maxRetries: 0 });
  const calls = (id: string) => {
    const delta = { tool_calls: [{ index: 0, ...call(id) }] };
    return stream(chunk(delta), chunk({}, 'tool_calls'), event('[DONE]'));
  };
  ada.play(either('A draft.'), calls('a'), calls('b'), either('At last 16.'));
  const asked = [question] as OpenAI.ChatCompletionMessageParam[];
  for (let turn = 0; turn < 3; turn++) {
    const gathered = client.chat.completions.stream({
      model: 'consort/fuse',
      messages: asked,
      tools: tools as OpenAI.ChatCompletionTool[],
    });
    const message = await gathered.finalMessage();
    asked.push(
      message,
      ...(message.tool_calls ?? []).map(({ id }) => result(id) as OpenAI.ChatCompletionMessageParam),
    );
    if (turn === 2) t.equal(message.content, 'At last 16.');
  }
  const [, fusion, second, third] = requests(ada).map(({ messages }) => messages as unknown[]);
  t.equal(bob.received.length, 1, 'drafts were asked for once');
  t.strictSame(second?.slice(0, fusion?.length), fusion);
  t.strictSame(third?.slice(0, second?.length), second);
  t.equal(third?.length, (fusion?.length ?? 0) + 4);
});

t.test('the coalition stays that of the first turn', async (t) => {
  const { first, back } = await firstTurn('fuse', { consort: { coalition: ['bob', 'cyd'] } });
  const { headers } = await chat(replica, 'fuse', back);
  const outcome = await replica.outcome(headers.get('x-consort-outcome'));
  t.match(outcome, {
    plan: { resumes: first.id, mask: 6, choice: { source: 'client' } },
    calls: [{ slot: 'resume/bob' }],
  });
  const other = await chat(replica, 'fuse', back, { consort: { coalition: ['ada'] } });
  const wanted = await replica.outcome(other.headers.get('x-consort-outcome'));
  t.match(wanted.plan, { resumes: null, mask: 1 }, 'unless the client wants another one');
});

t.test('what is not known runs anew on the whole conversation, and the outcome says so', async (t) => {
  const { back } = await firstTurn('fuse');
  const [, message, told] = back;
  const strange = { ...message, tool_calls: [call('strange')] };
  for (const [messages, system, key] of [
    [[question, strange, result('strange')], 'fuse', 'one'],
    [[{ ...question, content: 'Another question?' }, message, told], 'fuse', 'one'],
    [back, 'single', 'one'],
    [back, 'fuse', 'two'],
  ] as const) {
    const { headers, status } = await chat(gateway, system, messages, {}, key);
    t.equal(status, 200);
    const { plan, calls } = await gateway.outcome(headers.get('x-consort-outcome'));
    t.equal(plan.resumes, null);
    t.notOk(calls.some(({ slot }) => slot.startsWith('resume/')));
  }
  const more = await chat(gateway, 'fuse', [...back, { role: 'user', content: 'And three?' }]);
  const { plan } = await gateway.outcome(more.headers.get('x-consort-outcome'));
  t.equal(plan.resumes, undefined, 'a new question is no tool turn');
});

t.test('a system that has changed meanwhile runs anew', async (t) => {
  const { back } = await firstTurn('fuse');
  const changed = documentOf({ options: {} });
  changed.systems[1] = { ...changed.systems[1], options: { fuserDrafts: false } } as never;
  const other = await startGateway(t, changed, { turns: store.turns });
  const { headers } = await chat(other, 'fuse', back);
  t.equal((await other.outcome(headers.get('x-consort-outcome'))).plan.resumes, null);
});

t.test('when the member that called is gone, the protocol runs after all', async (t) => {
  const { first, back } = await firstTurn('fuse');
  ada.play(json({}, 500));
  const { json: body, headers } = await chat(gateway, 'fuse', back);
  t.equal(body.choices[0].message.content, 'I say 16.');
  const outcome = await gateway.outcome(headers.get('x-consort-outcome'));
  t.match(outcome, {
    status: 'ok',
    plan: { resumes: first.id },
    calls: [{ slot: 'resume/ada', status: 'failed' }],
  });
  t.ok(outcome.calls.some(({ slot }) => slot === 'fuse/bob'));
});

t.test('choices that call tools go on each for itself', async (t) => {
  const { json: body, headers } = await chat(gateway, 'single', [question], { n: 2 });
  const ids = headers.get('x-consort-outcome')?.split(', ') ?? [];
  for (const { index, message } of body.choices) {
    const back = [question, message, result(message.tool_calls[0].id)];
    const next = await chat(replica, 'single', back);
    const { plan } = await replica.outcome(next.headers.get('x-consort-outcome'));
    t.equal(plan.resumes, ids[index]);
  }
});

t.test('the rules for tools go to the call that speaks, and to no other', async (t) => {
  const rules = { tool_choice: { type: 'function', function: { name: 'legs' } }, parallel_tool_calls: false };
  await chat(gateway, 'fuse', [question], rules);
  const [draft, fusion] = requests(ada);
  t.match(fusion, rules);
  for (const one of [draft, requests(bob)[0]]) {
    for (const field of ['tools', ...Object.keys(rules)]) t.notOk(field in (one ?? {}), field);
  }
});

t.test('a draft stands for no answer where tools could be called', async (t) => {
  bob.play(json({}, 500));
  cyd.play(json({}, 500));
  const { json: body } = await chat(gateway, 'fuse', [question]);
  t.ok(body.choices[0].message.tool_calls, 'who wrote the only draft is asked again');
});

t.test('a store that is slow, down or full of nonsense fails no request', async (t) => {
  const never = new Promise<never>(() => {});
  const broken: Readonly<Record<string, Turns>> = {
    slow: { keep: () => never, find: () => never },
    down: { keep: () => Promise.reject(new Error('down')), find: () => Promise.reject(new Error('down')) },
    nonsense: { keep: () => Promise.resolve(), find: () => Promise.resolve('{"v":1,"after":"x"}') },
  };
  for (const [what, turns] of Object.entries(broken)) {
    const alone = await startGateway(t, documentOf(), { turns });
    const { json: body, status } = await chat(alone, 'single', [question]);
    t.equal(status, 200, what);
    const { message } = body.choices[0];
    const next = await chat(alone, 'single', [question, message, result(message.tool_calls[0].id)]);
    t.equal(next.json.choices[0].message.content, 'I say 16.');
    const outcome = await alone.outcome(next.headers.get('x-consort-outcome'));
    t.equal(outcome.plan.resumes, null);
    const [kept, found] = what === 'nonsense' ? ['kept', 'unknown'] : ['not_kept', 'not_found'];
    const metrics = await alone.metrics();
    for (const one of [kept, found]) t.match(metrics, `consort_tool_turns_total{result="${one}"} 1`);
  }
});

t.test('what is kept is small and holds no key; too much is not kept', async (t) => {
  const kept: string[] = [];
  const turns: Turns = {
    keep: (_name, text, ttlMs, most) => {
      kept.push(text);
      t.ok(ttlMs > 0 && most > 0);
      return Promise.resolve();
    },
    find: () => Promise.resolve(undefined),
  };
  const watched = await startGateway(t, documentOf(), { turns });
  const history = { role: 'user', content: 'h'.repeat(5_000) };
  await chat(watched, 'fuse', [history, question]);
  t.equal(kept.length, 1);
  t.notMatch(kept[0], 'canary');
  t.notMatch(kept[0], 'hhhh', 'the client sends again what it has sent');
  bob.play(calling('b'.repeat(140_000)));
  await chat(watched, 'fuse', [question]);
  t.equal(kept.length, 1);
  t.match(await watched.metrics(), 'consort_tool_turns_total{result="too_large"} 1');
  await send(
    `${watched.url}/v1/chat/completions`,
    { model: 'ada', messages: [question], tools },
    { key: 'sk-canary-one' },
  );
  t.equal(kept.length, 1, 'nor anything of a plain model');
});

t.end();
