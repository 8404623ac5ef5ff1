import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { connect, type AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { ChatRequest, Sampling } from '../../src/contract/chat.ts';
import { SseStream } from '../../src/gateway/wire/sse-stream.ts';
import { estimateOf } from '../conformance/store-fixtures.ts';
import { dataOf, open, send, startGateway } from '../support/gateway.ts';
import {
  chunk,
  either,
  event,
  HANG,
  json,
  RESET,
  said,
  spoken,
  SSE,
  startUpstream,
  stream,
  usageChunk,
  type Script,
} from '../support/upstream.ts';

const UPSTREAM_KEY = 'sk-canary-upstream';
const upstreams = { ada: await startUpstream(), bob: await startUpstream(), cyd: await startUpstream() };
const { ada, bob, cyd } = upstreams;
t.teardown(() => Promise.all(Object.values(upstreams).map((one) => one.close())));

const model = (id: string, url: string, more: object = {}) => ({
  id,
  provider: 'openai-compatible',
  baseUrl: url,
  model: `org/${id}`,
  apiKey: UPSTREAM_KEY,
  retries: 0,
  // Tests of one failure after the other.
  breaker: { enabled: false },
  timeouts: { connectMs: 500, firstPartMs: 5_000, partMs: 5_000, totalMs: 6_000 },
  ...more,
});

function documentOf(more: object = {}, server: object = {}) {
  const system = (id: string, protocol: string, options: object = {}) => ({
    id,
    pool: 'team',
    protocol,
    options,
  });
  return {
    server: { port: 0, adminPort: 0, maxBodyBytes: 20_000, heartbeatSeconds: 1, ...server },
    models: [
      model('ada', ada.url, { price: { inputUsdPerMTok: 1, outputUsdPerMTok: 2 } }),
      model('bob', bob.url),
      model('cyd', cyd.url),
      model('ada-patient', ada.url, { retries: 2 }),
      { id: 'sim-atlas', provider: 'sim', delays: false, failures: false },
      { id: 'sim-dingo', provider: 'sim', delays: false, failures: false },
    ],
    pools: [
      { id: 'team', members: ['ada', 'bob', 'cyd'] },
      { id: 'sims', members: ['sim-atlas', 'sim-dingo'] },
    ],
    systems: [
      system('single', 'single'),
      // All are heard, so that calls and tokens can be counted.
      system('vote', 'vote', { earlyExit: 0 }),
      system('debate', 'debate', { earlyExit: 0 }),
      system('fuse', 'fuse'),
      { ...system('fixed', 'fuse'), overrides: [] },
      { id: 'sims', pool: 'sims', protocol: 'vote' },
    ],
    ...more,
  };
}

const gateway = await startGateway(t, documentOf(), {
  notice: 'As a test.',
  estimates: [estimateOf('vote', 'legs', 's', 0.5), estimateOf('fuse', 'wings', 's', 0.25)],
});
const CHAT = `${gateway.url}/v1/chat/completions`;
const messages = [{ role: 'user', content: 'How many legs have two spiders?' }];
const ask = (model: string, more: object = {}) => ({ model, messages, ...more });

function playAll(script: Script | ((request: { body: Readonly<Record<string, unknown>> }) => Script)) {
  for (const one of Object.values(upstreams)) one.play(script);
}

t.beforeEach(() => playAll(either('The final answer is 16.') as never));

t.test('a plain model: the body passes both ways untouched', async (t) => {
  const theirs =
    '{ "id":"x",\n "choices":[{"index":0,"message":{"role":"assistant","content":"ü"},"finish_reason":"stop","odd":1}], "other":{"a":[1.50]}}';
  ada.play({ headers: { 'content-type': 'application/json' }, steps: [theirs] });
  const body = ask('ada', {
    n: 2,
    temperature: null,
    logprobs: true,
    tools: [{ type: 'function', function: { name: 'f', strict: true } }],
    response_format: { type: 'json_object' },
    reasoning_effort: 'low',
    vendor: { deep: [null, { x: 1 }] },
    messages: [
      { role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:,' }, extra: 1 }], odd: true },
    ],
  });
  const { text, status, headers } = await send(CHAT, { ...body, consort: { task: 'legs' } });
  t.equal(status, 200);
  t.equal(text, theirs);
  t.strictSame(ada.received[0]?.body, { ...body, model: 'org/ada', stream: false });
  t.equal(headers.get('x-consort-system'), 'ada');
  const outcome = await gateway.outcome(headers.get('x-consort-outcome'));
  t.match(outcome, { taskLabel: 'legs', answer: 'ü', status: 'ok', plan: { asked: 'ada' } });
});

t.test('a plain model: every event passes as it came', async (t) => {
  const events = [
    '{"id":"x","choices":[{"index":0,"delta":{"role":"assistant","content":""},"odd":1}],"usage":null}',
    '{"id":"x", "choices":[{"index":0,"delta":{"content":"Six\\"usage\\":null"}}],"obfuscation":"a","usage": null}',
    '{"id":"x","choices":[{"index":0,"delta":{"refusal":"no"}}]}',
    '{"id":"x","choices":[{"index":0,"delta":{},"finish_reason":"length"}],"usage":null}',
  ];
  const usage = '{"id":"x","choices": [],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}';
  const script = stream(': PROCESSING\n\n', ...[...events, usage].map(event), event('[DONE]'));
  ada.play(script);
  const options = { include_usage: true, include_obfuscation: false };
  const asked = await send(CHAT, ask('ada', { stream: true, stream_options: options, seed: 5 }));
  t.strictSame(dataOf(asked.text), [...events, usage, '[DONE]']);
  t.equal(asked.headers.get('content-type'), 'text/event-stream; charset=utf-8');
  t.match(ada.received[0]?.body, { stream: true, stream_options: options, seed: 5 });
  const unasked = await send(CHAT, ask('ada', { stream: true }));
  t.strictSame(
    dataOf(unasked.text),
    [...events.map((data) => data.replace(/,"usage": ?null(?=\})/, '')), '[DONE]'],
    'the usage that only we had asked for is taken out again',
  );
  const outcome = await gateway.outcome(unasked.headers.get('x-consort-outcome'));
  t.match(outcome, { usage: { inputTokens: 3, outputTokens: 4 }, finishReason: 'length' });
});

t.test('a plain model: an answer of which we read nothing is the client’s own affair', async (t) => {
  const empty = {
    choices: [{ index: 0, message: { content: null, refusal: 'No.' }, finish_reason: 'length' }],
  };
  ada.play(
    json(empty),
    stream(chunk({ role: 'assistant', content: '' }), chunk({}, 'length'), event('[DONE]')),
  );
  const whole = await send(CHAT, ask('ada'));
  t.equal(whole.status, 200);
  t.strictSame(whole.json, empty);
  const streamed = await send(CHAT, ask('ada', { stream: true }));
  t.equal(dataOf(streamed.text).length, 3);
  t.notMatch(streamed.text, 'error');
});

t.test('a plain model: an early failure keeps its own status, streamed or not', async (t) => {
  const role = chunk({ role: 'assistant', content: '' });
  for (const [script, status, code] of [
    [json({ error: { message: 'Too long', code: 'context_length_exceeded' } }, 400), 400, 'upstream_status'],
    [json({ error: { message: 'Bad key' } }, 401), 502, 'upstream_status'],
    [json({ error: { message: 'Slow down' } }, 429, { 'retry-after': '7' }), 429, 'upstream_status'],
    [json({ error: { message: 'Broken' } }, 500), 502, 'upstream_status'],
    [json({ error: { message: 'Inside 200' } }), 502, 'upstream_error'],
    [stream(role, event({ error: { message: 'After the role' } })), 502, 'upstream_error'],
  ] as const) {
    for (const isStream of [false, true]) {
      ada.play(script);
      const { status: ours, json: body, headers } = await send(CHAT, ask('ada', { stream: isStream }));
      t.equal(ours, status);
      t.match(body, { error: { code, type: 'api_error', param: null, message: /^Model ada / } });
      t.equal(headers.get('retry-after'), status === 429 ? '7' : null);
      const outcome = await gateway.outcome(headers.get('x-consort-outcome'));
      t.match(outcome, { status: 'failed', errorCode: code, answer: null });
    }
  }
});

t.test(
  'a plain model is asked again after a failure that may pass, as long as it said nothing',
  async (t) => {
    const role = chunk({ role: 'assistant', content: '' });
    ada.play(json({}, 503), stream(role, event({ error: 'busy' })), spoken('ok'));
    const { text, headers } = await send(CHAT, ask('ada-patient', { stream: true }));
    t.match(text, '"content":"ok"');
    t.equal(dataOf(text).filter((data) => data.includes('"role"')).length, 1, 'with one beginning');
    t.equal(ada.received.length, 3);
    const { calls } = await gateway.outcome(headers.get('x-consort-outcome'));
    t.match(calls, [{ attempts: 3, status: 'ok' }]);
    t.match(await gateway.metrics(), 'consort_retries_total{model="ada-patient",reason="upstream_status"} 1');

    ada.play(stream(chunk({ content: 'Six' }), { pauseMs: 20 }, RESET), spoken('ok'));
    const broken = await send(CHAT, ask('ada-patient', { stream: true }));
    t.equal(ada.received.length, 1, 'not after its first word');
    t.strictSame(
      dataOf(broken.text)
        .slice(1)
        .map((data) => (data === '[DONE]' ? data : JSON.parse(data).error.code)),
      ['upstream_truncated', '[DONE]'],
    );
    ada.play(json({}, 400), spoken('ok'));
    t.equal((await send(CHAT, ask('ada-patient'))).status, 400);
    t.equal(ada.received.length, 1, 'nor after a failure that will stay');
    ada.play(json({}, 429, { 'retry-after': '3600' }), spoken('ok'));
    t.equal((await send(CHAT, ask('ada-patient'))).status, 429);
    t.equal(ada.received.length, 1, 'nor sooner than the upstream wants');
  },
);

t.test('a team: one body in the client’s shape, with the usage of all calls', async (t) => {
  ada.play(said('I think so.\nThe final answer is 16.'));
  bob.play(said('The final answer is 14.'));
  cyd.play(json({ error: { message: 'Down' } }, 500));
  const {
    json: body,
    headers,
    status,
  } = await send(CHAT, ask('consort/debate', { consort: { trace: true } }));
  t.equal(status, 200);
  const outcome = await gateway.outcome(headers.get('x-consort-outcome'));
  t.match(body, {
    id: `chatcmpl-${outcome.id}`,
    object: 'chat.completion',
    model: 'consort/debate',
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content: 'I think so.\nThe final answer is 16.', refusal: null },
        finish_reason: 'stop',
        logprobs: null,
      },
    ],
    usage: { prompt_tokens: 28, completion_tokens: 8, total_tokens: 36 },
    consort: { trace: { outcome: outcome.id, members: ['ada', 'bob', 'cyd'], intended: 7, realised: 3 } },
  });
  t.equal(body.consort.trace.calls.length, 5);
  t.match(outcome.absences, [{ member: 'cyd', code: 'upstream_status' }]);
  t.equal(outcome.costMicros, 2 * (7 + 4), 'of the one member that has a price');
  const plain = await send(CHAT, ask('consort/debate'));
  t.notOk('consort' in plain.json, 'a trace only for who asks');
});

t.test('a team: chunks in the client’s shape, and the usage exactly as asked', async (t) => {
  for (const system of ['single', 'vote', 'debate', 'fuse']) {
    const calls = { single: 1, vote: 3, debate: 6, fuse: 4 }[system] ?? 0;
    for (const asked of [true, false]) {
      const more = { stream: true, ...(asked && { stream_options: { include_usage: true } }) };
      const { text, headers, status } = await send(CHAT, ask(`consort/${system}`, more));
      t.equal(status, 200);
      const outcome = await gateway.outcome(headers.get('x-consort-outcome'));
      const data = dataOf(text);
      t.equal(data.pop(), '[DONE]');
      const chunks = data.map((one) => JSON.parse(one));
      t.ok(
        chunks.every((one) => one.object === 'chat.completion.chunk' && one.id === `chatcmpl-${outcome.id}`),
      );
      t.ok(chunks.every((one) => one.model === `consort/${system}`));
      if (asked) {
        const last = chunks.pop();
        t.strictSame(last.choices, []);
        t.equal(last.usage.prompt_tokens, 7 * calls);
        t.equal(last.usage.total_tokens, outcome.usage.inputTokens + outcome.usage.outputTokens);
        t.ok(
          chunks.every((one) => one.usage === null),
          'the others have none',
        );
      } else t.ok(chunks.every((one) => !('usage' in one)));
      t.ok(chunks.every((one) => one.choices.length === 1));
      const deltas = chunks.map((one) => one.choices[0].delta);
      t.equal(deltas[0].role, 'assistant');
      t.equal(deltas.filter((delta) => 'role' in delta).length, 1);
      t.equal(deltas.map((delta) => delta.content ?? '').join(''), 'The final answer is 16.');
      const ends = chunks.map((one) => one.choices[0].finish_reason);
      t.strictSame(ends, [...ends.slice(1).map(() => null), 'stop'], 'one end, last');
    }
  }
});

t.test('a team: steps and the whole trace as chunks without choices', async (t) => {
  const body = ask('consort/fuse', {
    stream: true,
    stream_options: { include_usage: true },
    consort: { trace: true },
  });
  const { text } = await send(CHAT, body);
  const chunks = dataOf(text)
    .slice(0, -1)
    .map((data) => JSON.parse(data));
  const ours = chunks.filter((one) => one.consort);
  t.ok(ours.every((one) => one.choices.length === 0 && one.object === 'chat.completion.chunk'));
  const steps = ours.flatMap((one) => one.consort.step ?? []);
  t.equal(steps.filter(({ type }) => type === 'step-start').length, 4);
  const ends = steps.filter(({ type }) => type === 'step-end');
  t.equal(ends.length, 4);
  t.match(ends[0], {
    slot: /^draft\//,
    status: 'ok',
    text: 'The final answer is 16.',
    usage: { prompt_tokens: 7 },
  });
  t.equal(steps.at(-1).slot, 'fuse/ada');
  t.match(ours.at(-1).consort, { trace: { protocol: { name: 'fuse' }, simulated: false } });
  t.ok(chunks.at(-1).usage, 'the usage stands last');
  t.notMatch(text, /^event:/m);
});

t.test('a team: headers at once and heartbeats until the first word', async (t) => {
  playAll(stream({ pauseMs: 1_300 }, chunk({ content: 'The final answer is 16.' }), chunk({}, 'stop')));
  for (const one of Object.values(upstreams))
    one.play(({ body }) => (body['stream'] ? spoken('16') : said('16')));
  ada.play({
    steps: [{ pauseMs: 1_300 }, ...said('16').steps],
    headers: { 'content-type': 'application/json' },
  });
  const begun = performance.now();
  const response = await open(CHAT, ask('consort/vote', { stream: true }));
  t.ok(performance.now() - begun < 500, 'the status does not wait for a member');
  t.equal(response.status, 200);
  t.match(response.headers.get('x-consort-outcome'), /^[0-9a-f-]{36}$/);
  t.equal(response.headers.get('x-consort-system'), 'vote');
  t.equal(response.headers.get('cache-control'), 'no-cache, no-transform');
  t.equal(response.headers.get('x-accel-buffering'), 'no');
  const text = await response.text();
  t.match(text, /^: keep-alive\n\ndata: /);
  t.notMatch(text, /^id:/m, 'an id would make an event of a heartbeat');
  t.equal(dataOf(text).length, 3);
});

t.test('a plain model that is slow gets its stream opened after a second', async (t) => {
  ada.play(stream(': ping\n\n', { pauseMs: 1_300 }, chunk({ content: 'late' }), chunk({}, 'stop')));
  const begun = performance.now();
  const response = await open(CHAT, ask('ada', { stream: true }));
  const waited = performance.now() - begun;
  t.ok(waited > 900 && waited < 1_250, `${Math.round(waited)} ms`);
  t.match(await response.text(), '"content":"late"');
  ada.play(stream(': ping\n\n', { pauseMs: 1_200 }, event({ error: { message: 'Late failure' } })));
  const failed = await send(CHAT, ask('ada', { stream: true }));
  t.equal(failed.status, 200, 'the status has left');
  const [error, done] = dataOf(failed.text);
  t.match(JSON.parse(error ?? ''), { error: { code: 'upstream_error' } });
  t.equal(done, '[DONE]');
});

t.test('a stream that fails after its beginning ends with one error event and the end mark', async (t) => {
  for (const [name, steps, code] of [
    ['reset', [chunk({ content: 'Six' }), { pauseMs: 20 }, RESET], 'upstream_truncated'],
    ['cut off', [chunk({ content: 'Six' })], 'upstream_truncated'],
    ['error event', [chunk({ content: 'Six' }), event({ error: { message: 'No' } })], 'upstream_error'],
  ] as const) {
    for (const asked of ['ada', 'consort/single']) {
      ada.play(stream(...steps));
      const { text, headers } = await send(CHAT, ask(asked, { stream: true }));
      const data = dataOf(text);
      t.equal(data.pop(), '[DONE]', name);
      t.match(JSON.parse(data.pop() ?? ''), { error: { code, message: /ada/, type: 'api_error' } });
      t.match(data.join(), 'Six');
      t.notMatch(data.join(), /"finish_reason":"/, 'no end is made up');
      t.match(await gateway.outcome(headers.get('x-consort-outcome')), { status: 'failed', answer: null });
    }
  }
});

t.test('a stream is cut at server.maxStreamSeconds, and says so', async (t) => {
  const short = await startGateway(t, documentOf({}, { maxStreamSeconds: 1 }));
  ada.play(stream(chunk({ content: 'Six' }), HANG));
  const begun = performance.now();
  const { text } = await send(`${short.url}/v1/chat/completions`, ask('consort/single', { stream: true }));
  t.ok(performance.now() - begun < 1_500);
  const data = dataOf(text);
  t.match(JSON.parse(data.at(-2) ?? ''), { error: { code: 'deadline' } });
  t.equal(data.at(-1), '[DONE]');
  t.match(short.outcomes, [{ status: 'timeout', plan: { budget: { deadlineMs: 1_000 } } }]);
  await ada.received[0]?.left;
});

t.test('a run without any answer is an error with a reason for each member', async (t) => {
  playAll(json({ error: { message: 'Down' } }, 500));
  const whole = await send(CHAT, ask('consort/vote'));
  t.equal(whole.status, 502);
  t.match(whole.json.error, { code: 'members_failed', message: /ada: .*bob: .*cyd: / });
  const streamed = await send(CHAT, ask('consort/vote', { stream: true }));
  t.equal(streamed.status, 200, 'the stream had begun');
  t.match(JSON.parse(dataOf(streamed.text)[0] ?? ''), { error: { code: 'members_failed' } });
  playAll(json({ error: { message: 'Too long' } }, 400));
  t.equal((await send(CHAT, ask('consort/vote'))).status, 400, 'what all members say of the request stands');
});

t.test('tools: a speaking protocol passes them, a voting one refuses them by name', async (t) => {
  const tools = [{ type: 'function', function: { name: 'legs', parameters: {} } }];
  const tool = (index: number, id: string) => ({
    index,
    id,
    type: 'function',
    function: { name: 'legs', arguments: '{}' },
  });
  ada.play(
    stream(
      chunk({ tool_calls: [tool(0, 'a')] }),
      chunk({ tool_calls: [tool(0, 'b')] }),
      chunk({}, 'stop'),
      event('[DONE]'),
    ),
  );
  const { text } = await send(CHAT, ask('consort/single', { stream: true, tools }));
  t.strictSame(ada.received[0]?.body['tools'], tools);
  const chunks = dataOf(text)
    .slice(0, -1)
    .map((data) => JSON.parse(data).choices[0]);
  t.strictSame(
    chunks.flatMap(({ delta }) => delta.tool_calls ?? []).map(({ index, id }) => [index, id]),
    [
      [0, 'a'],
      [1, 'b'],
    ],
  );
  t.equal(chunks.at(-1).finish_reason, 'tool_calls');
  const message = { role: 'assistant', content: null, tool_calls: [tool(0, 'a')] };
  ada.play(json({ choices: [{ index: 0, message, finish_reason: 'tool_calls' }] }));
  const whole = await send(CHAT, ask('consort/single', { tools }));
  t.match(whole.json.choices[0], {
    finish_reason: 'tool_calls',
    message: { content: null, tool_calls: [{ id: 'a', function: { name: 'legs', arguments: '{}' } }] },
  });
  const refused = await send(CHAT, ask('consort/vote', { tools }));
  t.equal(refused.status, 400);
  t.match(refused.json.error, { code: 'not_supported', param: 'tools' });
});

t.test(
  'what a team cannot honour is refused with its field and value; what asks nothing is not',
  async (t) => {
    for (const [field, value] of Object.entries({
      n: 17,
      logit_bias: { 5: 1 },
      functions: [{ name: 'f' }],
      tool_choice: 'required',
      modalities: ['text', 'audio'],
      audio: { voice: 'x' },
    })) {
      const { status, json: body } = await send(CHAT, ask('consort/fuse', { [field]: value }));
      t.equal(status, 400, field);
      t.match(body.error, { code: 'not_supported', param: field, type: 'invalid_request_error' });
      t.match(body.error.message, JSON.stringify(value).slice(0, 20));
    }
    const neutral = {
      n: 1,
      logprobs: false,
      logit_bias: {},
      functions: [],
      tool_choice: 'auto',
      modalities: ['text'],
      audio: null,
      user: 'x',
      store: false,
    };
    t.equal((await send(CHAT, ask('consort/fuse', neutral))).status, 200);
  },
);

t.test('a seed repeats a team, and gives each call its own', async (t) => {
  const seeds = async (more: object) => {
    playAll(either('16') as never);
    const { headers } = await send(
      CHAT,
      ask('consort/vote', { consort: { options: { samples: 2 } }, ...more }),
    );
    const { plan } = await gateway.outcome(headers.get('x-consort-outcome'));
    const sent = Object.values(upstreams).flatMap(({ received }) => received.map(({ body }) => body['seed']));
    return { sent, instance: plan.promptInstance };
  };
  const one = await seeds({ seed: 7 });
  t.equal(new Set(one.sent).size, 6, 'two samples of one member differ');
  t.strictSame(await seeds({ seed: 7 }), one);
  t.notSame((await seeds({ seed: 8 })).sent, one.sent);
  const none = await seeds({});
  t.strictSame(none.sent, Array.from({ length: 6 }));
  t.not((await seeds({})).instance, none.instance);
});

t.test('two requests at once with different options stay apart', async (t) => {
  const bodies = [1, 2, 3, 4].map((samples) => ask('consort/vote', { consort: { options: { samples } } }));
  const results = await Promise.all(bodies.map((body) => send(CHAT, body)));
  for (const [index, { headers }] of results.entries()) {
    const { calls, plan } = await gateway.outcome(headers.get('x-consort-outcome'));
    t.equal(calls.length, 3 * (index + 1));
    t.equal(plan.options['samples'], index + 1);
  }
  const after = await send(CHAT, ask('consort/vote'));
  t.equal(
    (await gateway.outcome(after.headers.get('x-consort-outcome'))).calls.length,
    3,
    'and leave nothing behind',
  );
});

t.test('a client that leaves stops every upstream, streamed or not', async (t) => {
  for (const isStream of [true, false]) {
    for (const asked of ['consort/vote', 'consort/single', 'ada']) {
      playAll(({ body }) =>
        body['stream'] ? stream(chunk({ content: 'Six' }), HANG) : { steps: [{ pauseMs: 3_000 }] },
      );
      const control = new AbortController();
      const count = gateway.outcomes.length;
      const answer = open(CHAT, ask(asked, { stream: isStream }), { signal: control.signal });
      const over = answer.then((response) => response.text()).catch(() => undefined);
      const used = asked === 'consort/vote' ? Object.values(upstreams) : [ada];
      await Promise.all(used.map((one) => one.until(1)));
      await sleep(30);
      const begun = performance.now();
      control.abort();
      const left = await Promise.all(used.map(async ({ received }) => received[0]?.left));
      const slowest = Math.max(...left.map((at) => (at ?? Infinity) - begun));
      t.ok(slowest < 100, `${asked} ${isStream ? 'streamed' : 'whole'}: ${Math.round(slowest)} ms`);
      await over;
      while (gateway.outcomes.length === count) await sleep(5);
      const outcome = gateway.outcomes.at(-1);
      t.match(outcome, { status: 'cancelled', errorCode: 'client_gone', answer: null });
      t.equal(outcome?.calls.length, used.length);
      t.ok(outcome?.calls.every(({ status }) => status === 'cancelled'));
    }
  }
  await sleep(20);
  t.match(await gateway.metrics(), /^consort_requests_in_flight 0$/m);
  t.match(await gateway.metrics(), /^consort_streams_active 0$/m);
  t.notMatch(gateway.log(), /unforeseen|"level":50/);
});

t.test('the simulated pool says in every answer that it is one', async (t) => {
  const task = {
    ...ask('consort/sims'),
    messages: [{ role: 'user', content: 'Simulated task sim:reason/42. Which number?' }],
  };
  const whole = await send(CHAT, task);
  t.equal(whole.json.system_fingerprint, 'sim-pool/1');
  t.match(whole.json.choices[0].message.content, /\d{4}/);
  const { text, headers } = await send(CHAT, { ...task, stream: true });
  t.match(JSON.parse(dataOf(text)[0] ?? ''), { system_fingerprint: 'sim-pool/1' });
  t.equal((await gateway.outcome(headers.get('x-consort-outcome'))).simulated, true);
});

t.test('models: a list, and one by its name with a raw or an encoded slash', async (t) => {
  const list = await send(`${gateway.url}/v1/models`);
  const names = list.json.data.map(({ id }: { id: string }) => id);
  t.strictSame(names.filter((id: string) => id.includes('/')).length, 6);
  t.ok(names.includes('ada') && names.includes('consort/vote'));
  t.equal(list.json.object, 'list');
  t.equal(list.json.notice, 'As a test.');
  for (const path of ['consort/vote', 'consort%2Fvote', 'consort%2fvote']) {
    const { json: one } = await send(`${gateway.url}/v1/models/${path}`);
    t.match(one, {
      id: 'consort/vote',
      object: 'model',
      consort: { members: ['ada', 'bob', 'cyd'], shape: { calls: 3 } },
    });
  }
  t.match((await send(`${gateway.url}/v1/models/sim-atlas`)).json, { id: 'sim-atlas', simulated: true });
  for (const name of names) {
    const encoded = encodeURIComponent(name);
    for (const path of [name, `${name}/`, encoded, `${encoded}/`, `${encoded}%2F`, `${name}?x=1`]) {
      const { status, json: one } = await send(`${gateway.url}/v1/models/${path}`);
      t.equal(status, 200, path);
      t.equal(one.id, name);
    }
    const shout = await send(`${gateway.url}/v1/models/${name.toUpperCase()}`);
    t.equal(shout.status, 404, 'in the case in which it is listed');
  }
  t.strictSame((await send(`${gateway.url}/v1/models/`)).json, list.json);
  const none = await send(`${gateway.url}/v1/models/consort/none`);
  t.equal(none.status, 404);
  t.match(none.json.error, { code: 'model_not_found', message: /consort\/none/ });
  t.notMatch(list.text, /canary|http:/, 'no address and no key');
});

t.test('feedback: becomes a reward of its outcome', async (t) => {
  const { headers } = await send(CHAT, ask('consort/vote'));
  const id = headers.get('x-consort-outcome');
  const post = (body: object) => send(`${gateway.url}/v1/feedback`, body);
  const { status, json: body } = await post({ outcome_id: id, value: true, source: 'thumbs' });
  t.equal(status, 202);
  t.strictSame(body, { outcome_id: id, source: 'feedback:user:thumbs', value: 1 });
  t.match(gateway.rewards.at(-1), { outcomeId: id, value: 1, source: 'feedback:user:thumbs' });
  t.equal((await post({ outcome_id: id, value: 0.25, metric: 'length' })).json.source, 'feedback:length');
  for (const [wrong, field] of [
    [{ outcome_id: id, value: 2 }, 'value'],
    [{ outcome_id: id, value: 1, metric: 'A b' }, 'metric'],
    [{ outcome_id: id }, 'body'],
    [{ outcome_id: id, value: 1, extra: 1 }, 'extra'],
  ] as const) {
    const { status: refused, json: error } = await post(wrong);
    t.equal(refused, 400);
    t.match(error.error, { code: 'invalid_request', param: field });
  }
  const unknown = await post({ outcome_id: 'none', value: 1 });
  t.equal(unknown.status, 404);
  t.match(unknown.json.error, { code: 'outcome_not_found', message: /none/ });
  gateway.isFull = true;
  const full = await post({ outcome_id: id, value: 1 });
  gateway.isFull = false;
  t.equal(full.status, 503);
  t.equal(full.headers.get('retry-after'), '5');
});

t.test('estimates: filtered as asked', async (t) => {
  const get = async (query: string) => (await send(`${gateway.url}/v1/estimates${query}`)).json.data.length;
  t.equal(await get(''), 2);
  t.equal(await get('?system=vote'), 1);
  t.equal(await get('?task=wings'), 1);
  t.equal(await get('?system=vote&task=wings'), 0);
  const { status, json: body } = await send(`${gateway.url}/v1/estimates?colour=red`);
  t.equal(status, 400);
  t.match(body.error, { code: 'invalid_request', param: 'colour' });
});

t.test('a wrong body is refused with the field, the rule and the value', async (t) => {
  const role = 'system, developer, user, assistant, tool';
  for (const [body, field, message] of [
    [{ messages }, 'body', /model/],
    [{ model: 'ada' }, 'body', /messages/],
    [ask('ada', { messages: [] }), 'messages', /\[\]/],
    [ask('ada', { temperature: 3 }), 'temperature', /must be <= 2.*got 3/],
    [ask('ada', { temperature: 'hot' }), 'temperature', /number.*got "hot"/],
    [ask('ada', { max_tokens: 0 }), 'max_tokens', />= 1.*got 0/],
    [ask('ada', { stream: 'yes' }), 'stream', /boolean.*got "yes"/],
    [
      ask('ada', { messages: [{ role: 'usr', content: 'x' }] }),
      'messages.0.role',
      new RegExp(`must be one of ${role}, got "usr"`),
    ],
    [
      ask('ada', { messages: [{ role: 'user', content: 5 }] }),
      'messages.0.content',
      /string or .*array.*got 5/,
    ],
    [
      ask('ada', { messages: [{ role: 'user', content: [{ type: 'text' }] }] }),
      'messages.0.content.0',
      /text/,
    ],
    [
      ask('ada', { messages: [{ role: 'user', content: [{ type: 'image_url' }] }] }),
      'messages.0.content.0',
      /image_url/,
    ],
    [
      ask('ada', { messages: [{ role: 'user', content: [{ type: 'smell' }] }] }),
      'messages.0.content.0.type',
      /text, image_url.*got "smell"/,
    ],
    [ask('consort/vote', { consort: { colour: 1 } }), 'consort.colour', /not a known field/],
    [ask('consort/vote', { consort: { 'a/b': 1 } }), 'consort.a/b', /not a known field, got 1/],
    [ask('consort/vote', { consort: { seed: -1 } }), 'consort.seed', />= 0.*got -1/],
    [ask('ada', { messages: [{ role: 'user', content: ['x'.repeat(500)] }] }), 'messages.0.content.0', /x…/],
  ] as const) {
    const { status, json: answer } = await send(CHAT, body);
    t.equal(status, 400);
    t.match(answer.error, { code: 'invalid_request', type: 'invalid_request_error', param: field });
    t.match(answer.error.message, message);
    t.ok(answer.error.message.startsWith(`${field}: `));
    t.ok(answer.error.message.length < 400, 'not the whole prompt');
  }
});

t.test('every sampling field is checked and may be null', async (t) => {
  const fields = Object.keys(Sampling.properties);
  t.ok(fields.length >= 8);
  for (const field of fields) {
    t.ok(field in ChatRequest.properties, field);
    const wrong = await send(CHAT, ask('ada', { [field]: { not: 'this' } }));
    t.match(wrong.json.error, { param: field });
  }
  const none = Object.fromEntries(fields.map((field) => [field, null]));
  t.equal((await send(CHAT, ask('consort/single', none))).status, 200);
  t.notOk(Object.keys(ada.received.at(-1)?.body ?? {}).some((field) => fields.includes(field)));
});

t.test('a plan that cannot be is refused with its reason', async (t) => {
  for (const [system, consort, status, error] of [
    [
      'consort/vote',
      { coalition: ['ada', 'zoe'] },
      400,
      { code: 'coalition_invalid', message: /zoe.*ada, bob, cyd/ },
    ],
    [
      'consort/vote',
      { coalition: ['ada', 'ada'] },
      400,
      { code: 'invalid_request', param: 'consort.coalition' },
    ],
    ['consort/vote', { coalition: [] }, 400, { code: 'invalid_request', param: 'consort.coalition' }],
    [
      'consort/vote',
      { options: { samples: 0 } },
      400,
      { code: 'option_invalid', message: /samples.*vote.*0/ },
    ],
    [
      'consort/vote',
      { options: { colour: 'red' } },
      400,
      { code: 'option_invalid', message: /colour.*not a known option.*samples, ties/ },
    ],
    ['consort/vote', { options: { samples: 64 } }, 400, { code: 'budget_too_small', message: /32.*192/ }],
    ['consort/vote', { budget: { calls: 2 } }, 400, { code: 'budget_too_small', message: /2.*3/ }],
    [
      'consort/vote',
      { verifier: 'astrology' },
      400,
      { code: 'verifier_unknown', message: /astrology.*exact-match/ },
    ],
    ['consort/fixed', { seed: 1 }, 403, { code: 'override_forbidden', param: 'consort.seed' }],
    ['ada', { coalition: ['ada'] }, 403, { code: 'override_forbidden' }],
    ['consort/none', {}, 404, { code: 'model_not_found', param: 'model', message: /consort\/none/ }],
    ['consort/vote:ada+bob', {}, 404, { code: 'model_not_found' }],
  ] as const) {
    const { status: ours, json: body } = await send(CHAT, ask(system, { consort }));
    t.equal(ours, status, `${system} ${JSON.stringify(consort)}`);
    t.match(body.error, error);
  }
  t.equal(ada.received.length, 0, 'and nobody is asked');
});

t.test('what is no chat request is refused in the same envelope', async (t) => {
  const raw = (body: string, headers: Record<string, string> = {}) => send(CHAT, body, { headers });
  for (const [answer, status, code, message] of [
    [await raw('{"model":'), 400, 'invalid_json', /JSON/],
    [await raw(''), 400, 'invalid_json', /it is empty/],
    [await raw('[1]'), 400, 'invalid_request', /object/],
    [await raw('"x"'), 400, 'invalid_request', /object/],
    [await raw('{"__proto__":{"x":1}}'), 400, 'invalid_json', /__proto__|prototype/i],
    [await raw('['.repeat(101) + ']'.repeat(101)), 400, 'invalid_json', /deeper than 100 levels/],
    [await raw('['.repeat(100) + ']'.repeat(100)), 400, 'invalid_request', /object/],
    [await raw('{"x":'.repeat(3_000) + '1' + '}'.repeat(3_000)), 400, 'invalid_json', /deeper/],
    [await raw(JSON.stringify(ask('ada', { x: 'y'.repeat(20_000) }))), 413, 'body_too_large', /20000/],
    [await raw('x=1', { 'content-type': 'text/plain' }), 415, 'unsupported_media_type', /text\/plain/],
    [await send(`${gateway.url}/v1/nothing?x=1`), 404, 'route_not_found', /GET \/v1\/nothing[^?]/],
    [await send(`${gateway.url}/v1/models/%ff`), 400, 'invalid_request', /path.*%ff/],
    [await send(`${gateway.url}/v1/outcomes/none`), 404, 'outcome_not_found', /none/],
  ] as const) {
    t.equal(answer.status, status, code);
    t.match(answer.json.error, {
      code,
      message,
      type: 'invalid_request_error',
      param: status === 400 && code === 'invalid_request' ? String : null,
    });
  }
  for (const [method, path, allow] of [
    ['GET', '/v1/chat/completions', 'POST'],
    ['DELETE', '/v1/models', 'GET, HEAD'],
    ['POST', '/v1/models/consort/vote', 'GET, HEAD'],
    ['PUT', '/v1/outcomes/x', 'GET, HEAD'],
  ]) {
    const {
      status,
      headers,
      json: body,
    } = await send(`${gateway.url}${path}`, undefined, { method: method! });
    t.equal(status, 405);
    t.strictSame(headers.get('allow')?.split(', ').toSorted(), allow?.split(', '));
    t.match(body.error, { code: 'route_not_found' });
  }
  t.match(await gateway.metrics(), /consort_requests_rejected_total\{code="invalid_json"\} [1-9]/);
});

t.test('keys: who may ask what, and no key is ever repeated', async (t) => {
  const hash = (key: string) => createHash('sha256').update(key).digest('hex');
  const [app, other, scorer] = ['canary-app', 'canary-other', 'canary-scorer'];
  const keys = [
    { name: 'app', sha256: hash(app), models: ['consort/*'] },
    { name: 'other', sha256: hash(other), models: ['ada', 'consort/fuse'] },
    { name: 'scorer', sha256: hash(scorer), permissions: ['score'] },
  ];
  const locked = await startGateway(
    t,
    documentOf({ auth: { required: true, keys } }, { inlinePlans: true }),
    {
      estimates: [estimateOf('vote', 'legs', 's', 0.5), estimateOf('fuse', 'legs', 's', 0.5)],
    },
  );
  const url = `${locked.url}/v1/chat/completions`;
  const refusals: [object, object, number, string][] = [
    [ask('consort/vote'), {}, 401, 'key_missing'],
    [ask('consort/vote'), { key: 'canary-wrong' }, 401, 'key_invalid'],
    [ask('consort/vote'), { headers: { 'x-api-key': 'canary-wrong' } }, 401, 'key_invalid'],
    [ask('consort/vote'), { headers: { authorization: 'Basic canary-x' } }, 401, 'key_missing'],
    [ask('ada'), { key: app }, 403, 'key_forbidden'],
    [ask('consort/vote'), { key: other }, 403, 'key_forbidden'],
    [ask('ada-patient'), { key: other }, 403, 'key_forbidden'],
    [ask('consort/vote:ada+bob'), { key: app }, 403, 'key_forbidden'],
    [ask('consort/vote', { consort: { gold: '16' } }), { key: app }, 403, 'key_forbidden'],
    [ask('consort/vote', { consort: { verifier: 'exact-match' } }), { key: app }, 403, 'key_forbidden'],
    [ask('consort/vote', { consort: { design: 'full' } }), { key: app }, 403, 'key_forbidden'],
  ];
  for (const [body, sending, status, code] of refusals) {
    const answer = await send(url, body, sending);
    t.equal(answer.status, status, code);
    t.match(answer.json.error, { code });
    t.notMatch(answer.text, 'canary');
  }
  t.equal(ada.received.length, 0);
  for (const [body, sending] of [
    [ask('consort/vote'), { key: app }],
    [ask('consort/vote'), { headers: { 'x-api-key': app } }],
    [ask('consort/vote'), { headers: { authorization: `bearer ${app}` } }],
    [ask('ada'), { key: other }],
    [ask('consort/vote:ada+bob'), { key: scorer }],
    [ask('consort/vote', { consort: { gold: '16', verifier: 'exact-match' } }), { key: scorer }],
    [ask('consort/vote', { consort: { choices: { A: '16', B: '14' }, task: 'legs' } }), { key: app }],
  ] as [object, object][]) {
    t.equal((await send(url, body, sending)).status, 200);
  }

  const { headers } = await send(url, ask('consort/fuse'), { key: other });
  const outcomeUrl = `${locked.url}/v1/outcomes/${headers.get('x-consort-outcome')}`;
  t.equal((await send(outcomeUrl, undefined, { key: other })).json.plan.tenant, 'other');
  const foreign = await send(outcomeUrl, undefined, { key: scorer });
  t.equal(foreign.status, 404, 'another tenant’s outcome does not exist');
  t.equal(foreign.json.error.code, 'outcome_not_found');
  const feedback = { outcome_id: headers.get('x-consort-outcome'), value: 1 };
  t.equal((await send(`${locked.url}/v1/feedback`, feedback, { key: other })).status, 403);
  t.equal((await send(`${locked.url}/v1/feedback`, feedback, { key: scorer })).status, 404);

  const list = await send(`${locked.url}/v1/models`, undefined, { key: other });
  t.strictSame(
    list.json.data.map(({ id }: { id: string }) => id),
    ['ada', 'consort/fuse'],
  );
  t.equal((await send(`${locked.url}/v1/models/bob`, undefined, { key: other })).status, 404);
  const estimates = await send(`${locked.url}/v1/estimates`, undefined, { key: other });
  t.strictSame(
    estimates.json.data.map(({ system }: { system: string }) => system),
    ['fuse'],
  );
  t.equal((await send(`${locked.url}/v1/nothing`)).status, 401, 'not even which routes there are');

  playAll(json({ error: { message: `Incorrect API key provided: ${UPSTREAM_KEY}` } }, 401));
  for (const isStream of [true, false]) {
    const failed = await send(url, ask('consort/vote', { stream: isStream }), { key: app });
    t.match(failed.text, 'redacted');
    t.notMatch(failed.text, 'canary');
  }
  t.notMatch(JSON.stringify(locked.outcomes), 'canary', 'no record holds a key');
  t.notMatch(locked.log(), 'canary', 'nor does the log');
});

t.test('without required keys a placeholder is no reason to refuse', async (t) => {
  t.equal((await send(CHAT, ask('consort/vote'), { key: 'sk-placeholder' })).status, 200);
});

t.test('a request id of the client’s comes back, streamed or not', async (t) => {
  const headers = { 'x-request-id': 'mine-7' };
  for (const body of [ask('ada'), ask('consort/vote', { stream: true })]) {
    t.equal((await send(CHAT, body, { headers })).headers.get('x-request-id'), 'mine-7');
  }
});

t.test('a client that stops reading holds the upstream, and is cut off in the end', async (t) => {
  const closed = Promise.withResolvers<void>();
  let waited: void | Promise<void>;
  let written = 0;
  const server = createServer((_request, response) => {
    response.on('close', () => closed.resolve());
    const sse = new SseStream(response, { headers: {}, heartbeatMs: 5, stallMs: 150 });
    void (async () => {
      while (!response.destroyed && written < 2_000) {
        waited = sse.send('x'.repeat(20_000));
        written++;
        if (waited) await waited;
        else await new Promise((resolve) => setImmediate(resolve));
      }
      sse.end();
      // After its end and after the client has left nothing happens any more.
      await sse.send('late');
    })();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  socket.on('error', () => undefined);
  socket.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n');
  socket.pause();
  const begun = performance.now();
  await closed.promise;
  t.ok(written < 2_000, `held after ${written} events`);
  t.ok(performance.now() - begun < 2_000);
  socket.destroy();
  server.close();
});

t.test('a stream that was ended lets its client go, even one that does not read', async (t) => {
  const closed = Promise.withResolvers<void>();
  const server = createServer((_request, response) => {
    response.on('close', () => closed.resolve());
    const sse = new SseStream(response, { headers: {}, heartbeatMs: 1_000, stallMs: 100 });
    void sse.send('x'.repeat(30_000_000));
    // What is left goes with the end, so that only the end can cut it off.
    sse.end();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  socket.on('error', () => undefined);
  socket.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n');
  socket.pause();
  await closed.promise;
  t.pass('it was cut off');
  socket.destroy();
  server.close();
});

t.test('an event of several lines stays one event', async (t) => {
  ada.play({
    headers: SSE,
    steps: [
      'data: {"choices":[{"index":0,\ndata: "delta":{"content":"ok"},"finish_reason":"stop"}]}\n\n',
      usageChunk(1, 1),
    ],
  });
  const { text } = await send(CHAT, ask('ada', { stream: true }));
  t.match(
    text,
    'data: {"choices":[{"index":0,\ndata: "delta":{"content":"ok"},"finish_reason":"stop"}]}\n\n',
  );
});

t.end();
