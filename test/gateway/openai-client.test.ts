/** The official client, unmodified, against the real gateway. */
import OpenAI from 'openai';
import t, { type Test } from 'tap';
import { startGateway } from '../support/gateway.ts';
import {
  chunk,
  either,
  event,
  HANG,
  json,
  startUpstream,
  stream,
  type MockUpstream,
} from '../support/upstream.ts';

const upstreams: MockUpstream[] = [await startUpstream(), await startUpstream()];
t.teardown(() => Promise.all(upstreams.map((one) => one.close())));
const [ada] = upstreams as [MockUpstream];

const names = ['ada', 'bob'];
const gateway = await startGateway(t, {
  server: { port: 0, heartbeatSeconds: 1 },
  models: names.map((id, index) => ({
    id,
    provider: 'openai-compatible',
    baseUrl: upstreams[index]?.url,
    retries: 0,
    breaker: { enabled: false },
  })),
  pools: [{ id: 'pair', members: names }],
  systems: ['vote', 'fuse', 'single'].map((id) => ({ id, pool: 'pair', protocol: id })),
});
const client = new OpenAI({ apiKey: 'sk-any', baseURL: `${gateway.url}/v1`, maxRetries: 0 });
const messages = [{ role: 'user' as const, content: 'How many legs have two spiders?' }];

t.beforeEach(() => {
  for (const one of upstreams) one.play(either('The final answer is 16.'));
});

t.test('a whole answer of a team and of a plain model', async (t) => {
  for (const model of ['consort/vote', 'consort/fuse', 'ada']) {
    const completion = await client.chat.completions.create({ model, messages });
    t.equal(completion.choices[0]?.message.content, 'The final answer is 16.');
    t.equal(completion.choices[0]?.finish_reason, 'stop');
    t.equal(completion.usage?.prompt_tokens, { 'consort/vote': 14, 'consort/fuse': 21, ada: 7 }[model]);
  }
  const { response } = await client.chat.completions
    .create({ model: 'consort/vote', messages })
    .withResponse();
  t.match(response.headers.get('x-consort-outcome'), /^[0-9a-f-]{36}$/);
});

t.test('a streamed answer, with its usage, its steps and through heartbeats', async (t) => {
  upstreams[1]?.play({ ...json({}), steps: [{ pauseMs: 1_100 }, ...json({ error: 'down' }).steps] });
  for (const model of ['consort/fuse', 'consort/vote', 'ada']) {
    const more = model === 'ada' ? {} : { consort: { trace: true } };
    const params = {
      model,
      messages,
      stream: true as const,
      stream_options: { include_usage: true },
      ...more,
    };
    const answer = await client.chat.completions.create(params);
    let text = '';
    let finish: string | null = null;
    let usage: number | undefined;
    for await (const part of answer) {
      text += part.choices[0]?.delta.content ?? '';
      finish = part.choices[0]?.finish_reason ?? finish;
      usage = part.usage?.prompt_tokens ?? usage;
    }
    t.equal(text, 'The final answer is 16.', model);
    t.equal(finish, 'stop');
    t.equal(usage, 7);
  }
});

t.test('the helper that gathers a stream', async (t) => {
  const gathered = client.chat.completions.stream({ model: 'consort/single', messages });
  const deltas: string[] = [];
  gathered.on('content', (delta) => deltas.push(delta));
  t.equal(await gathered.finalContent(), 'The final answer is 16.');
  t.ok(deltas.length > 1, 'word by word');
});

t.test('tool calls, whole and streamed, and the turn that brings their results', async (t) => {
  const tools = [{ type: 'function' as const, function: { name: 'legs', parameters: { type: 'object' } } }];
  const call = (id: string) => ({
    index: 0,
    id,
    type: 'function',
    function: { name: 'legs', arguments: '{"n":' },
  });
  const rest = { index: 0, function: { arguments: '2}' } };
  const calls = [call('a'), rest, call('b'), rest].map((tool) => chunk({ tool_calls: [tool] }));
  for (const model of ['consort/single', 'ada']) {
    ada.play(
      stream(chunk({ role: 'assistant', content: null }), ...calls, chunk({}, 'stop'), event('[DONE]')),
    );
    const gathered = client.chat.completions.stream({ model, messages, tools });
    const message = await gathered.finalMessage();
    t.strictSame(
      message.tool_calls?.map((one) => [one.id, one.type === 'function' ? one.function.arguments : '']),
      [
        ['a', '{"n":2}'],
        ['b', '{"n":2}'],
      ],
      model,
    );
    t.equal((await gathered.finalChatCompletion()).choices[0]?.finish_reason, 'tool_calls');
    ada.play(either('16'));
    const results = (message.tool_calls ?? []).map(({ id }) => ({
      role: 'tool' as const,
      tool_call_id: id,
      content: '8',
    }));
    const next = await client.chat.completions.create({
      model,
      messages: [...messages, message, ...results],
      tools,
    });
    t.equal(next.choices[0]?.message.content, '16');
    t.match(ada.received[0]?.body['messages'], [
      {},
      { tool_calls: [{ id: 'a' }, { id: 'b' }] },
      { tool_call_id: 'a' },
    ]);
  }
});

type ErrorClass = new (...args: never) => InstanceType<typeof OpenAI.OpenAIError>;

async function failsAs(
  t: Test,
  work: Promise<unknown>,
  kind: ErrorClass,
  fields: object = {},
): Promise<void> {
  const error: unknown = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  t.ok(error instanceof kind, `${kind.name}: ${String(error)}`);
  t.match(error, fields);
}

t.test('each failure has its class, with our code', async (t) => {
  const fail = (model: string, more: object = {}) =>
    client.chat.completions.create({ model, messages, ...more });
  await failsAs(t, fail('nobody'), OpenAI.NotFoundError, { status: 404, code: 'model_not_found' });
  const fields = { param: 'temperature', type: 'invalid_request_error' };
  await failsAs(t, fail('consort/vote', { temperature: 9 }), OpenAI.BadRequestError, fields);
  ada.play(json({ error: { message: 'Slow down' } }, 429));
  await failsAs(t, fail('ada'), OpenAI.RateLimitError, { code: 'upstream_status' });
  ada.play(json({ error: { message: 'Bad key' } }, 401));
  await failsAs(t, fail('ada'), OpenAI.InternalServerError, { status: 502 });
  const gathered = client.chat.completions.stream({ model: 'ada', messages });
  await failsAs(t, gathered.finalContent(), OpenAI.InternalServerError, { status: 502 });
});

t.test('a stream that fails on its way throws after its words', async (t) => {
  for (const model of ['ada', 'consort/single']) {
    ada.play(stream(chunk({ content: 'Six' })));
    const answer = await client.chat.completions.create({ model, messages, stream: true });
    let text = '';
    const reading = (async () => {
      for await (const part of answer) text += part.choices[0]?.delta.content ?? '';
    })();
    await failsAs(t, reading, OpenAI.APIError, { code: 'upstream_truncated' });
    t.equal(text, 'Six');
  }
});

t.test('a client that stops stops the upstream', async (t) => {
  ada.play(stream(chunk({ content: 'Six' }), HANG));
  const answer = await client.chat.completions.create({ model: 'consort/single', messages, stream: true });
  for await (const part of answer) if (part.choices[0]?.delta.content) break;
  const begun = performance.now();
  const left = (await ada.received[0]?.left) ?? Infinity;
  t.ok(left - begun < 100, `${Math.round(left - begun)} ms`);
  ada.play({ steps: [{ pauseMs: 3_000 }] });
  const control = new AbortController();
  const whole = client.chat.completions.create({ model: 'ada', messages }, { signal: control.signal });
  await Promise.all([failsAs(t, whole, OpenAI.APIUserAbortError), ada.until(1).then(() => control.abort())]);
  await ada.received[0]?.left;
});

t.test('the models, listed and one by one', async (t) => {
  const ids: string[] = [];
  for await (const model of client.models.list()) ids.push(model.id);
  t.strictSame(ids.toSorted(), ['ada', 'bob', 'consort/fuse', 'consort/single', 'consort/vote']);
  t.match(await client.models.retrieve('consort/vote'), {
    id: 'consort/vote',
    object: 'model',
    owned_by: 'consort',
  });
});

t.end();
