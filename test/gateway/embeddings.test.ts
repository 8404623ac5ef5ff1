/** Embeddings: one model's, passed through. */
import { hash } from 'node:crypto';
import OpenAI from 'openai';
import t from 'tap';
import { send, startGateway } from '../support/gateway.ts';
import { json, startUpstream, stream } from '../support/upstream.ts';

const ada = await startUpstream();
t.teardown(() => ada.close());

const gateway = await startGateway(t, {
  server: { port: 0, maxBodyBytes: 20_000 },
  auth: {
    required: true,
    keys: [
      { name: 'one', sha256: hash('sha256', 'sk-one'), models: ['ada', 'c*', 's*'] },
      { name: 'poor', sha256: hash('sha256', 'sk-poor'), limits: { tokensPerMinute: 1 } },
    ],
  },
  models: [
    {
      id: 'ada',
      provider: 'openai-compatible',
      baseUrl: ada.url,
      model: 'org/ada',
      apiKey: 'sk-canary',
      retries: 1,
      breaker: { enabled: false },
      price: { inputUsdPerMTok: 2, outputUsdPerMTok: 0 },
    },
    { id: 'bob', provider: 'openai-compatible', baseUrl: ada.url },
    { id: 'sim-atlas', provider: 'sim', delays: false },
  ],
  pools: [{ id: 'team', members: ['ada', 'bob'] }],
  systems: [{ id: 'vote', pool: 'team', protocol: 'vote' }],
});
const URL = `${gateway.url}/v1/embeddings`;
const key = 'sk-one';
const client = new OpenAI({ apiKey: key, baseURL: `${gateway.url}/v1`, maxRetries: 0 });

const THEIRS =
  '{ "object":"list", "data":[{"object":"embedding","index":0,"embedding":[0.50, -1e-7]}],\n "model":"x", "odd":1.0, "usage":{"prompt_tokens":8,"total_tokens":8}}';
const theirs = { headers: { 'content-type': 'application/json' }, steps: [THEIRS] };

t.beforeEach(() => ada.play(theirs));

t.test('the body passes both ways untouched, and the run is recorded', async (t) => {
  for (const [input, more] of [
    ['ü', { dimensions: 2, user: 'u', vendor: { deep: [null] } }],
    [['a', 'b'], { encoding_format: 'float', stream: false }],
    [[1, 2, 3], {}],
    [[[1, 2], [3]], { input_type: 'query' }],
    [undefined, { messages: [{ role: 'user', content: 'as vLLM takes it' }] }],
  ] as const) {
    ada.play(theirs);
    const body = { model: 'ada', ...(input && { input }), ...more };
    const { status, text, headers } = await send(URL, { ...body, consort: { task: 'find' } }, { key });
    t.equal(status, 200);
    t.equal(text, THEIRS);
    t.equal(ada.received[0]?.path, '/v1/embeddings');
    t.strictSame(ada.received[0]?.body, { ...body, model: 'org/ada' }, 'nothing added, no encoding_format');
    t.match(await gateway.outcome(headers.get('x-consort-outcome')), {
      status: 'ok',
      taskLabel: 'find',
      usage: { inputTokens: 8, outputTokens: 0 },
      costMicros: 16,
      calls: [{ member: 'ada', status: 'ok', attempts: 1 }],
      plan: { asked: 'ada', tenant: 'one' },
    });
  }
  const metrics = await gateway.metrics();
  t.match(metrics, 'consort_tokens_total{model="ada",direction="input"} 40');
  t.match(metrics, 'consort_requests_in_flight 0');
});

t.test('the official client: base64 is its own choice, and reaches the upstream', async (t) => {
  const numbers = Buffer.from(new Float32Array([0.5, -2]).buffer).toString('base64');
  ada.play(
    json({ object: 'list', data: [{ object: 'embedding', index: 0, embedding: numbers }], model: 'x' }),
  );
  const { data } = await client.embeddings.create({ model: 'ada', input: 'legs' });
  t.equal(ada.received[0]?.body['encoding_format'], 'base64');
  t.strictSame([...(data[0]?.embedding ?? [])], [0.5, -2]);
});

t.test('a team has none, nor has a provider without them, and nobody is asked', async (t) => {
  for (const [model, message] of [
    ['consort/vote', /team/],
    ['sim-atlas', /provider/],
  ] as const) {
    const { status, json: body } = await send(URL, { model, input: 'x' }, { key });
    t.equal(status, 400);
    t.match(body.error, { code: 'not_supported', param: 'model', message });
    t.match(body.error.message, model);
  }
  t.equal(ada.received.length, 0);
  t.match((await send(URL, { model: 'nobody', input: 'x' }, { key })).json.error, {
    code: 'model_not_found',
    param: 'model',
  });
  t.match((await send(URL, { model: 'bob', input: 'x' }, { key })).json.error, { code: 'key_forbidden' });
  t.equal((await send(URL, { model: 'ada', input: 'x' })).status, 401);
  for (const [body, param] of [
    [{ input: 'x' }, 'body'],
    [{ model: 'ada', input: 'x', stream: true }, 'stream'],
    [{ model: 'ada', input: 'x', consort: { colour: 1 } }, 'consort.colour'],
  ] as const) {
    t.match((await send(URL, body, { key })).json.error, { code: 'invalid_request', param });
  }
});

t.test('a failure keeps its status and names no key; one that may pass is tried again', async (t) => {
  ada.play(json({ error: { message: 'Bad input for sk-canary' } }, 400));
  const wrong = await send(URL, { model: 'ada', input: 'x' }, { key });
  t.equal(wrong.status, 400);
  t.match(wrong.json.error, { code: 'upstream_status', message: /Bad input for \[redacted\]/ });
  ada.play(json({}, 503), theirs);
  t.equal((await send(URL, { model: 'ada', input: 'x' }, { key })).text, THEIRS);
  t.equal(ada.received.length, 2);
  for (const [script, code] of [
    [json({ error: { message: 'Within 200' } }), 'upstream_error'],
    [json({ data: 'none' }), 'upstream_malformed'],
    [json('text'), 'upstream_malformed'],
    [stream('data: {"data":[]}\n\n'), 'upstream_malformed'],
  ] as const) {
    ada.play(script);
    const failed = await send(URL, { model: 'ada', input: 'x' }, { key });
    t.equal(failed.status, 502);
    t.match(failed.json.error, { code });
    const outcome = await gateway.outcome(failed.headers.get('x-consort-outcome'));
    t.match(outcome, { status: 'failed', errorCode: code });
  }
});

t.test('the limits of a key hold here, too', async (t) => {
  const { status, json: body } = await send(URL, { model: 'ada', input: 'a few words' }, { key: 'sk-poor' });
  t.equal(status, 429);
  t.match(body.error, { code: 'rate_limited' });
  t.equal(ada.received.length, 0);
});

t.test('a client that leaves stops the upstream', async (t) => {
  ada.play({ steps: [{ pauseMs: 3_000 }] });
  const control = new AbortController();
  const left = t.rejects(send(URL, { model: 'ada', input: 'x' }, { key, signal: control.signal }));
  await ada.until(1);
  const outcome = gateway.outcome();
  control.abort();
  await Promise.all([left, ada.received[0]?.left]);
  t.match(await outcome, { status: 'cancelled', errorCode: 'client_gone' });
});

t.end();
