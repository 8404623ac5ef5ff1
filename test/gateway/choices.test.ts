/** Log-probabilities and several choices of a team, over real HTTP and with the official client. */
import OpenAI from 'openai';
import t from 'tap';
import { dataOf, open, send, startGateway } from '../support/gateway.ts';
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
  type Script,
} from '../support/upstream.ts';

const names = ['ada', 'bob', 'cyd'] as const;
const upstreams = { ada: await startUpstream(), bob: await startUpstream(), cyd: await startUpstream() };
const { ada, bob, cyd } = upstreams;
t.teardown(() => Promise.all(Object.values(upstreams).map((one) => one.close())));

const gateway = await startGateway(t, {
  server: { port: 0, heartbeatSeconds: 1 },
  models: names.map((id) => ({
    id,
    provider: 'openai-compatible',
    baseUrl: upstreams[id].url,
    retries: 0,
    capabilities: { ada: { logprobs: 3 }, bob: {}, cyd: { logprobs: 0 } }[id],
  })),
  pools: [{ id: 'team', members: names }],
  systems: ['single', 'fuse', 'vote'].map((protocol) => ({
    id: protocol,
    pool: 'team',
    protocol,
    ...(protocol === 'vote' && { options: { earlyExit: 0 } }),
  })),
});
const CHAT = `${gateway.url}/v1/chat/completions`;
const client = new OpenAI({ apiKey: 'sk-any', baseURL: `${gateway.url}/v1`, maxRetries: 0 });
const messages = [{ role: 'user' as const, content: 'How many legs have two spiders?' }];
const ask = (system: string, more: object = {}) => ({ model: `consort/${system}`, messages, ...more });
const playAll = (script: Script | ((request: Received) => Script)) => {
  for (const one of Object.values(upstreams)) one.play(script);
};
const received = (upstream: MockUpstream) => upstream.received.map(({ body }) => body);

t.beforeEach(() => playAll(either('The final answer is 16.')));

/** Five alternatives a token, however many were asked for. */
const token = (text: string) => ({
  token: text,
  logprob: -0.5,
  top_logprobs: [text, 'a', 'b', 'c', 'd'].map((other) => ({ token: other, logprob: -1 })),
});

/** A member that tells log-probabilities when it is asked to. */
function telling(...words: readonly string[]): (request: Received) => Script {
  const content = words.map(token);
  return ({ body }) => {
    if (body['stream'] !== true) {
      const message = { role: 'assistant', content: words.join('') };
      const logprobs = body['logprobs'] ? { content } : null;
      return json({ choices: [{ index: 0, message, logprobs, finish_reason: 'stop' }] });
    }
    const pieces = words.map((word, index) => {
      const logprobs = body['logprobs'] ? { content: [content[index]] } : null;
      return event({ choices: [{ index: 0, delta: { content: word }, logprobs, finish_reason: null }] });
    });
    return stream(...pieces, chunk({}, 'stop'), event('[DONE]'));
  };
}

t.test('log-probabilities of the member that speaks, whole and as it speaks', async (t) => {
  ada.play(telling('It is', ' 16.'));
  for (const system of ['single', 'fuse']) {
    const whole = await client.chat.completions.create({
      ...ask(system),
      logprobs: true,
      top_logprobs: 2,
    });
    const content = whole.choices[0]?.logprobs?.content;
    t.strictSame(
      content?.map((one) => one.token),
      ['It is', ' 16.'],
      system,
    );
    t.ok(
      content?.every((one) => one.top_logprobs.length === 2),
      'as many alternatives as were asked for',
    );

    const { text } = await send(CHAT, ask(system, { stream: true, logprobs: true, top_logprobs: 2 }));
    const choices = dataOf(text)
      .slice(0, -1)
      .map((data) => JSON.parse(data).choices[0]);
    t.strictSame(choices[0].delta, { role: 'assistant', content: '' });
    for (const { delta, logprobs } of choices.slice(1)) {
      const tokens = logprobs?.content.map((one: { token: string }) => one.token);
      t.strictSame(tokens, delta.content === undefined ? undefined : [delta.content], 'beside their words');
    }
    const gathered = client.chat.completions.stream({ ...ask(system), logprobs: true, top_logprobs: 2 });
    t.equal((await gathered.finalChatCompletion()).choices[0]?.logprobs?.content?.length, 2);
  }
});

t.test('only calls whose words can reach the client are asked, for what their endpoint has', async (t) => {
  ada.play(telling('16'));
  await send(CHAT, ask('fuse', { logprobs: true, top_logprobs: 5 }));
  const [draft, fusion] = received(ada);
  t.equal(draft?.['logprobs'], undefined);
  t.match(fusion, { logprobs: true, top_logprobs: 3 }, 'no more than it can tell');
  ada.play(telling('16'));
  await send(CHAT, ask('fuse', { logprobs: true }));
  t.strictSame([received(ada)[1]?.['logprobs'], received(ada)[1]?.['top_logprobs']], [true, undefined]);
  ada.play(telling('16'));
  await send(CHAT, ask('fuse'));
  t.equal(received(ada)[1]?.['logprobs'], undefined, 'nothing unasked');
});

t.test('the winner’s own log-probabilities, or null where its endpoint tells none', async (t) => {
  for (const isStream of [false, true]) {
    ada.play(telling('The final answer is 14.'));
    bob.play(telling('The final answer is', ' 16.'));
    cyd.play(either('The final answer is 16.'));
    const won = await send(CHAT, ask('vote', { stream: isStream, logprobs: true }));
    t.match(
      won.text,
      '"logprobs":{"content":[{"token":"The final answer is","logprob":-0.5,"top_logprobs":[]}',
    );
    t.equal(received(cyd)[0]?.['logprobs'], undefined, 'it is known to tell none');
  }
  bob.play(json({}, 500));
  ada.play(json({}, 500));
  const { json: body } = await send(CHAT, ask('vote', { logprobs: true }));
  t.equal(body.choices[0].logprobs, null);
});

t.test('log-probabilities that nobody can tell are refused', async (t) => {
  const coalition = { consort: { coalition: ['cyd'] } };
  const refused = await send(CHAT, ask('vote', { logprobs: true, ...coalition }));
  t.equal(refused.status, 400);
  t.match(refused.json.error, { code: 'not_supported', param: 'logprobs', message: /members cyd/ });
  const without = await send(CHAT, ask('vote', { top_logprobs: 2 }));
  t.match(without.json.error, { code: 'invalid_request', param: 'top_logprobs' });
  t.equal((await send(CHAT, ask('vote', { logprobs: false, ...coalition }))).status, 200);
});

/** Says the number of the request. */
function counting(): (request: Received) => Script {
  let count = 0;
  return (request) => either(`It is ${count++}.`)(request);
}

t.test('several choices are several runs, whole', async (t) => {
  const params = { ...ask('vote', { consort: { seed: 4 } }), n: 3 };
  const whole = await client.chat.completions.create(params).withResponse();
  const { choices, usage, id } = whole.data;
  t.strictSame(
    choices.map(({ index, message, finish_reason: end }) => [index, message.content, end]),
    [0, 1, 2].map((index) => [index, 'The final answer is 16.', 'stop']),
  );
  t.equal(usage?.prompt_tokens, 3 * 3 * 7, 'the usage of all calls of all runs');
  const ids = whole.response.headers.get('x-consort-outcome')?.split(', ') ?? [];
  t.equal(id, `chatcmpl-${ids[0]}`);
  const outcomes = await Promise.all(ids.map((one) => gateway.outcome(one)));
  t.equal(new Set(ids).size, 3);
  t.strictSame(
    outcomes.map(({ plan, status }) => [plan.replicate, status]),
    [
      [0, 'ok'],
      [1, 'ok'],
      [2, 'ok'],
    ],
  );
  t.equal(new Set(outcomes.map(({ plan }) => plan.promptInstance)).size, 1, 'of one prompt');
  const seeds = received(ada).map(({ seed }) => seed);
  t.equal(new Set(seeds).size, 3, 'each with seeds of its own');
});

t.test('several choices in one stream', async (t) => {
  ada.play(counting());
  const params = { ...ask('single'), n: 3, stream: true as const, stream_options: { include_usage: true } };
  const texts = ['', '', ''];
  const ends: (string | null)[] = [];
  let roles = 0;
  let tokens: number | undefined;
  for await (const part of await client.chat.completions.create(params)) {
    tokens = part.usage?.prompt_tokens ?? tokens;
    for (const { index, delta, finish_reason: end } of part.choices) {
      texts[index] += delta.content ?? '';
      if (delta.role) roles++;
      if (end) ends[index] = end;
    }
  }
  t.strictSame(texts.toSorted(), ['It is 0.', 'It is 1.', 'It is 2.']);
  t.strictSame(ends, ['stop', 'stop', 'stop']);
  t.equal(roles, 3);
  t.equal(tokens, 3 * 7);
  ada.play(counting());
  const gathered = client.chat.completions.stream({ ...ask('single'), n: 2 });
  const { choices } = await gathered.finalChatCompletion();
  t.same(new Set(choices.map(({ message }) => message.content)), new Set(['It is 0.', 'It is 1.']));
});

t.test('traces of all choices', async (t) => {
  const more = { n: 2, consort: { trace: true } };
  const { json: body } = await send(CHAT, ask('single', more));
  t.equal(body.consort.traces.length, 2);
  const { text } = await send(CHAT, ask('single', { ...more, stream: true }));
  const ours = dataOf(text)
    .slice(0, -1)
    .flatMap((data) => JSON.parse(data).consort ?? []);
  const steps = ours.flatMap(({ step }) => step?.choice ?? []);
  for (const choice of [0, 1]) t.equal(steps.filter((one) => one === choice).length, 2);
  t.equal(ours.at(-1).traces.length, 2);
});

t.test('a choice that fails is left out, unless all do', async (t) => {
  for (const isStream of [false, true]) {
    ada.play(json({}, 400), either('It is 16.'));
    const only = { coalition: ['ada'] };
    const more = { n: 3, stream: isStream, consort: only };
    const { text, status, headers } = await send(CHAT, ask('single', more));
    t.equal(status, 200);
    const bodies = isStream ? dataOf(text).slice(0, -1) : [text];
    const indices = bodies.flatMap((data) =>
      JSON.parse(data).choices.map((one: { index: number }) => one.index),
    );
    const ids = headers.get('x-consort-outcome')?.split(', ') ?? [];
    const outcomes = await Promise.all(ids.map((one) => gateway.outcome(one)));
    const answered = [0, 1, 2].filter((index) => outcomes[index]?.status === 'ok');
    t.equal(answered.length, 2);
    t.same(new Set(indices), new Set(answered), 'the others keep their index');
    t.notMatch(text, '"error"');

    ada.play(json({ error: { message: 'Too long' } }, 400));
    const none = await send(CHAT, ask('single', more));
    t.equal(none.status, isStream ? 200 : 400);
    t.match(none.text, '"code":"upstream_status"');
    t.equal(none.text.match(/"error":/g)?.length, 1);
  }
});

t.test(
  'a choice that breaks off after its first word ends the stream with its error, after the others',
  async (t) => {
    const broken = stream(chunk({ content: 'It ' }), event({ error: { message: 'Lost' } }));
    ada.play(broken, either('It is 16.'));
    const more = { n: 2, stream: true, stream_options: { include_usage: true } };
    const { text } = await send(CHAT, ask('single', more));
    const data = dataOf(text);
    t.equal(data.pop(), '[DONE]');
    t.match(JSON.parse(data.pop() ?? ''), { error: { code: 'upstream_error' } });
    t.match(JSON.parse(data.pop() ?? ''), { usage: { prompt_tokens: 7 } });
    t.equal(data.filter((one) => one.includes('"finish_reason":"stop"')).length, 1);
  },
);

t.test('a client that leaves stops all choices', async (t) => {
  ada.play(stream(chunk({ content: 'It ' }), HANG));
  const control = new AbortController();
  const response = await open(CHAT, ask('single', { n: 3, stream: true }), { signal: control.signal });
  const ids = response.headers.get('x-consort-outcome')?.split(', ') ?? [];
  await ada.until(3);
  control.abort();
  await Promise.all(ada.received.map(({ left }) => left));
  const outcomes = await Promise.all(ids.map((id) => gateway.outcome(id)));
  t.strictSame(
    outcomes.map(({ status }) => status),
    ['cancelled', 'cancelled', 'cancelled'],
  );
});

t.test(
  'more choices than a team gives are refused, a plain model takes what its upstream takes',
  async (t) => {
    const { status, json: body } = await send(CHAT, ask('vote', { n: 17 }));
    t.equal(status, 400);
    t.match(body.error, { code: 'not_supported', param: 'n', message: /17 .*at most 16/ });
    const two = said('one', {
      choices: [0, 1].map((index) => ({ index, message: { content: 'x' }, finish_reason: 'stop' })),
    });
    ada.play(two);
    const plain = await send(CHAT, { model: 'ada', messages, n: 17 });
    t.equal(plain.json.choices.length, 2);
    t.equal(received(ada)[0]?.['n'], 17);
  },
);

t.end();
