/** The legacy completions: passed through to a plain model, answered by a team as a turn of a chat. */
import { hash } from 'node:crypto';
import OpenAI from 'openai';
import t from 'tap';
import { dataOf, send, startGateway } from '../support/gateway.ts';
import {
  chunk,
  either,
  event,
  HANG,
  json,
  said,
  startUpstream,
  stream,
  type MockUpstream,
  type Received,
} from '../support/upstream.ts';

const upstreams: MockUpstream[] = [await startUpstream(), await startUpstream()];
t.teardown(() => Promise.all(upstreams.map((one) => one.close())));
const [ada, bob] = upstreams as [MockUpstream, MockUpstream];

const gateway = await startGateway(t, {
  server: { port: 0, maxBodyBytes: 20_000 },
  auth: { keys: [{ name: 'poor', sha256: hash('sha256', 'sk-poor'), limits: { tokensPerMinute: 1 } }] },
  models: [
    ...['ada', 'bob'].map((id, index) => ({
      id,
      provider: 'openai-compatible',
      baseUrl: upstreams[index]?.url,
      model: `org/${id}`,
      retries: 0,
      breaker: { enabled: false },
    })),
    { id: 'sim-atlas', provider: 'sim', delays: false },
  ],
  pools: [{ id: 'pair', members: ['ada', 'bob'] }],
  systems: ['single', 'vote', 'fuse'].map((id) => ({ id, pool: 'pair', protocol: id })),
});
const URL = `${gateway.url}/v1/completions`;
const client = new OpenAI({ apiKey: 'sk-any', baseURL: `${gateway.url}/v1`, maxRetries: 0 });
const prompt = 'Two spiders have';

t.beforeEach(() => {
  for (const one of upstreams) one.play(either(' 16 legs.'));
});

const THEIRS =
  '{ "id":"x","object":"text_completion","choices":[{"text":" 16","index":0,"logprobs":{"tokens":[" 16"],"token_logprobs":[-0.10]},"finish_reason":"length"}],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4},"odd":1.0}';

t.test('a plain model: any body passes both ways untouched', async (t) => {
  for (const more of [
    { prompt, suffix: '.', best_of: 3, echo: true, logprobs: 5, max_tokens: 0, vendor: { deep: [null] } },
    { prompt: [prompt, 'x'], n: 2, stream: false },
    { prompt: [1, 2, 3], temperature: null },
    { prompt: [[1], [2, 3]] },
    {},
  ]) {
    ada.play({ headers: { 'content-type': 'application/json' }, steps: [THEIRS] });
    const { status, text, headers } = await send(URL, { model: 'ada', ...more, consort: { task: 'legs' } });
    t.equal(status, 200);
    t.equal(text, THEIRS);
    t.equal(ada.received[0]?.path, '/v1/completions');
    t.strictSame(ada.received[0]?.body, { ...more, model: 'org/ada' });
    const outcome = await gateway.outcome(headers.get('x-consort-outcome'));
    t.match(outcome, {
      status: 'ok',
      answer: ' 16',
      finishReason: 'length',
      taskLabel: 'legs',
      usage: { inputTokens: 3, outputTokens: 1 },
    });
  }
});

t.test('a plain model: every event passes as it came, and the usage if it was asked for', async (t) => {
  const events = [
    '{"id":"x","choices":[{"text":" 1","index":0,"logprobs":null,"finish_reason":null}],"usage":null}',
    '{"id":"x","choices":[{"text":"6","index":0,"odd":1,"finish_reason":null}],"usage": null}',
    '{"id":"x","choices":[{"text":"","index":0,"finish_reason":"stop"}],"usage":null}',
  ];
  const usage = '{"id":"x","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}';
  ada.play(stream(...[...events, usage].map(event), event('[DONE]')));
  const body = { model: 'ada', prompt, stream: true };
  const asked = await send(URL, { ...body, stream_options: { include_usage: true } });
  t.strictSame(dataOf(asked.text), [...events, usage, '[DONE]']);
  t.strictSame(ada.received[0]?.body, { ...body, model: 'org/ada', stream_options: { include_usage: true } });
  const unasked = await send(URL, body);
  const bare = events.map((data) => data.replace(/,"usage": ?null(?=\})/, ''));
  t.strictSame(dataOf(unasked.text), [...bare, '[DONE]']);
  t.match(await gateway.outcome(unasked.headers.get('x-consort-outcome')), {
    answer: ' 16',
    usage: { inputTokens: 3, outputTokens: 2 },
  });
  ada.play({ headers: { 'content-type': 'application/json' }, steps: [THEIRS] });
  const whole = await send(URL, body);
  t.match(JSON.parse(dataOf(whole.text)[0] ?? ''), {
    object: 'text_completion',
    choices: [{ text: ' 16', finish_reason: 'length' }],
  });
  t.equal(dataOf(whole.text).at(-1), '[DONE]', 'also of an upstream that answers whole');
});

t.test('a team gets the prompt as one turn, and answers in the legacy shape', async (t) => {
  const sampling = { max_tokens: 9, temperature: 0.5, stop: ['\n'], seed: 3, presence_penalty: 1 };
  const { json: body, headers } = await send(URL, { model: 'consort/fuse', prompt, ...sampling });
  const outcome = await gateway.outcome(headers.get('x-consort-outcome'));
  t.strictSame(body, {
    id: `cmpl-${outcome.id}`,
    object: 'text_completion',
    created: body.created,
    model: 'consort/fuse',
    choices: [{ text: ' 16 legs.', index: 0, logprobs: null, finish_reason: 'stop' }],
    usage: { prompt_tokens: 21, completion_tokens: 6, total_tokens: 27 },
  });
  t.strictSame(ada.received[0]?.path, '/v1/chat/completions');
  t.strictSame(ada.received[0]?.body['messages'], [{ role: 'user', content: prompt }]);
  t.match(ada.received.at(-1)?.body, { max_tokens: 9, temperature: 0.5, stop: ['\n'] });
  t.notOk(['prompt', 'suffix', 'echo', 'best_of'].some((field) => field in (ada.received[0]?.body ?? {})));
});

t.test('a team streams chunks of text, with its usage and trace as asked', async (t) => {
  for (const model of ['consort/single', 'consort/vote', 'sim-atlas']) {
    const more = {
      stream_options: { include_usage: true },
      ...(model !== 'sim-atlas' && { consort: { trace: true } }),
    };
    const { text, headers } = await send(URL, { model, prompt, stream: true, ...more });
    const outcome = await gateway.outcome(headers.get('x-consort-outcome'));
    const data = dataOf(text);
    t.equal(data.pop(), '[DONE]');
    const chunks = data.map((one) => JSON.parse(one));
    t.ok(chunks.every(({ object, id }) => object === 'text_completion' && id === `cmpl-${outcome.id}`));
    const choices = chunks.flatMap((one) => one.choices);
    t.equal(choices.map((one) => one.text).join(''), outcome.answer);
    t.strictSame(choices.filter((one) => one.finish_reason).length, 1);
    t.equal(choices.at(-1).finish_reason, 'stop');
    t.equal(chunks.at(-1).usage.total_tokens, outcome.usage.inputTokens + outcome.usage.outputTokens);
    t.equal(
      chunks.some(({ consort }) => consort?.trace),
      model !== 'sim-atlas',
    );
  }
});

t.test('several choices, each with the prompt before it where that was asked for', async (t) => {
  const body = { model: 'consort/vote', prompt, n: 2, best_of: 2, echo: true };
  const whole = await send(URL, body);
  t.strictSame(
    whole.json.choices.map((one: { index: number; text: string }) => [one.index, one.text]),
    [0, 1].map((index) => [index, `${prompt} 16 legs.`]),
  );
  const streamed = await send(URL, { ...body, stream: true });
  const texts = ['', ''];
  for (const data of dataOf(streamed.text).slice(0, -1)) {
    for (const { index, text } of JSON.parse(data).choices) texts[index] += text;
  }
  t.strictSame(texts, [`${prompt} 16 legs.`, `${prompt} 16 legs.`]);
});

t.test('log-probabilities in the legacy form', async (t) => {
  const entry = (token: string, logprob: number) => ({
    token,
    logprob,
    bytes: null,
    top_logprobs: [
      { token, logprob, bytes: null },
      { token: 'x', logprob: -5 },
      { token: 'y', logprob: -6 },
    ],
  });
  const content = [entry(' 16', -0.1), entry(' legs', -0.2)];
  const expected = {
    tokens: [' 16', ' legs'],
    token_logprobs: [-0.1, -0.2],
    top_logprobs: [
      { ' 16': -0.1, x: -5 },
      { ' legs': -0.2, x: -5 },
    ],
    text_offset: [0, 3],
  };
  const message = { role: 'assistant', content: ' 16 legs' };
  const choice = { index: 0, message, logprobs: { content }, finish_reason: 'stop' };
  ada.play(json({ choices: [choice] }));
  const body = { model: 'consort/single', prompt, logprobs: 2 };
  const whole = await send(URL, body);
  t.strictSame(whole.json.choices[0].logprobs, expected);
  t.match(ada.received[0]?.body, { logprobs: true, top_logprobs: 2 });
  const piece = (index: number) =>
    event({
      choices: [
        { index: 0, delta: { content: content[index]?.token }, logprobs: { content: [content[index]] } },
      ],
    });
  ada.play(stream(piece(0), piece(1), chunk({}, 'stop'), event('[DONE]')));
  const { text } = await send(URL, { ...body, stream: true });
  const parts = dataOf(text)
    .slice(0, -1)
    .flatMap((data) => JSON.parse(data).choices);
  t.strictSame(
    parts.map(({ logprobs }) => logprobs?.text_offset ?? null),
    [[0], [3], null],
  );
  t.strictSame(
    parts.flatMap(({ logprobs }) => logprobs?.tokens ?? []),
    expected.tokens,
  );
  ada.play(json({ choices: [choice] }));
  const bare = await send(URL, { ...body, logprobs: 0 });
  t.match(bare.json.choices[0].logprobs, { tokens: expected.tokens, top_logprobs: null });
  t.match(ada.received[0]?.body, { logprobs: true });
});

t.test('what a chat cannot do is refused by name, to teams and to simulated models', async (t) => {
  for (const [more, param, code] of [
    [{ prompt: ['a', 'b'] }, 'prompt', 'not_supported'],
    [{ prompt: [1, 2] }, 'prompt', 'not_supported'],
    [{ prompt: [[1], [2]] }, 'prompt', 'not_supported'],
    [{ prompt: {} }, 'prompt', 'not_supported'],
    [{ prompt: undefined }, 'prompt', 'invalid_request'],
    [{ prompt: null }, 'prompt', 'invalid_request'],
    [{ suffix: '.' }, 'suffix', 'not_supported'],
    [{ best_of: 2 }, 'best_of', 'not_supported'],
    [{ echo: true, logprobs: 1 }, 'logprobs', 'not_supported'],
    [{ max_tokens: 0 }, 'max_tokens', 'not_supported'],
    [{ max_tokens: -1 }, 'max_tokens', 'invalid_request'],
    [{ logprobs: true }, 'logprobs', 'invalid_request'],
    [{ echo: 'yes' }, 'echo', 'invalid_request'],
  ] as const) {
    for (const model of ['consort/vote', 'sim-atlas']) {
      const { status, json: body } = await send(URL, { model, prompt, ...more });
      t.equal(status, 400, JSON.stringify(more));
      t.match(body.error, { code, param });
    }
  }
  const bias = await send(URL, { model: 'consort/vote', prompt, logit_bias: { 5: 1 } });
  t.match(bias.json.error, { code: 'not_supported', param: 'logit_bias' });
  t.equal(ada.received.length + bob.received.length, 0, 'nobody is asked');
  const neutral = { suffix: '', best_of: 1, echo: false, n: 1, logprobs: null, user: 'x', logit_bias: {} };
  t.equal((await send(URL, { model: 'consort/vote', prompt, ...neutral })).status, 200);
});

t.test('the limits of a key hold here, too', async (t) => {
  for (const model of ['consort/vote', 'ada']) {
    const { status, json: body } = await send(URL, { model, prompt }, { key: 'sk-poor' });
    t.equal(status, 429);
    t.match(body.error, { code: 'rate_limited', type: 'rate_limit_error' });
  }
  t.equal(ada.received.length, 0);
});

t.test('the official client: whole, streamed, an error, and its leaving', async (t) => {
  const legacy = ({ body }: Received) =>
    body['stream'] === true
      ? stream(
          ...[' 16', ' legs.'].map((text) => event({ choices: [{ text, index: 0, finish_reason: null }] })),
          event({ choices: [{ text: '', index: 0, finish_reason: 'stop' }] }),
          event('[DONE]'),
        )
      : json({
          object: 'text_completion',
          choices: [{ text: ' 16 legs.', index: 0, finish_reason: 'stop' }],
        });
  for (const model of ['consort/single', 'ada']) {
    const answering = model === 'ada' ? legacy : either(' 16 legs.');
    ada.play(answering);
    const whole = await client.completions.create({ model, prompt });
    t.equal(whole.choices[0]?.text, ' 16 legs.');
    const streamed = await client.completions.create({ model, prompt, stream: true });
    let text = '';
    for await (const { choices } of streamed) text += choices[0]?.text ?? '';
    t.equal(text, ' 16 legs.');
    const first =
      model === 'ada' ? event({ choices: [{ text: ' 16', index: 0 }] }) : chunk({ content: ' 16' });
    ada.play(stream(first));
    const broken = await client.completions.create({ model, prompt, stream: true });
    await t.rejects(
      (async () => {
        for await (const _ of broken);
      })(),
      { code: 'upstream_truncated' },
    );
    ada.play(stream(first, HANG));
    for await (const _ of await client.completions.create({ model, prompt, stream: true })) break;
    await ada.received[0]?.left;
  }
  ada.play(json({ error: { message: 'Slow down' } }, 429));
  await t.rejects(client.completions.create({ model: 'ada', prompt }), { code: 'upstream_status' });
  ada.play(said('x'));
  await t.rejects(client.completions.create({ model: 'nobody', prompt }), { code: 'model_not_found' });
});

t.end();
