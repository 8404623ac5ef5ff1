import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import t from 'tap';
import Value from 'typebox/value';
import type { Answer, Call, CallNote } from '../../src/contract/call.ts';
import { ModelConfig } from '../../src/contract/config.ts';
import { ConsortError } from '../../src/contract/errors.ts';
import type { Emit, Part } from '../../src/contract/part.ts';
import { openaiCompatible } from '../../src/gateway/upstreams/openai-compatible.ts';
import { askedWaitMs, type Headers } from '../../src/gateway/upstreams/retry-after.ts';
import { memberNamed } from '../support/cast.ts';
import {
  chunk,
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
  type MockUpstream,
  type Script,
  type Step,
} from '../support/upstream.ts';

const KEY = 'sk-canary-0123456789';
const TIMEOUTS = { connectMs: 1_000, firstPartMs: 2_000, partMs: 2_000, totalMs: 4_000 };

interface Heard {
  readonly parts: Part[];
  readonly note: CallNote;
  readonly answer?: Answer;
  readonly error?: ConsortError;
}

interface Asking {
  readonly stream?: boolean;
  readonly call?: Partial<Call>;
  readonly model?: object;
  readonly timeouts?: object;
  readonly signal?: AbortSignal;
  readonly emit?: Emit;
}

const upstream: MockUpstream = await startUpstream();
const opened: (() => Promise<void>)[] = [];
t.after(async () => {
  await Promise.all(opened.map((close) => close()));
  await upstream.close();
});

function modelAt(baseUrl: string, { model = {}, timeouts = {} }: Asking = {}): ModelConfig {
  const document = {
    id: 'ours',
    provider: 'openai-compatible',
    baseUrl,
    apiKey: KEY,
    timeouts: { ...TIMEOUTS, ...timeouts },
    ...model,
  };
  const config: unknown = Value.Default(ModelConfig, document);
  if (!Value.Check(ModelConfig, config)) throw new TypeError('not a model');
  return config;
}

async function ask(asking: Asking = {}, baseUrl = upstream.url): Promise<Heard> {
  const { send, close } = openaiCompatible.open(modelAt(baseUrl, asking));
  opened.push(close);
  const parts: Part[] = [];
  const note: CallNote = { attempts: 0, reused: false, lostUsage: { inputTokens: 0, outputTokens: 0 } };
  const call: Call = {
    slot: 'answer/ours',
    member: { ...memberNamed('ours'), model: 'org/Their-Model' },
    purpose: 'answer',
    messages: [{ role: 'user', content: 'How many?' }],
    sampling: {},
    sample: 0,
    reads: [],
    speaks: true,
    ...asking.call,
  };
  const emit: Emit = (part) => {
    parts.push(part);
    return asking.emit?.(part);
  };
  const signal = asking.signal ?? new AbortController().signal;
  try {
    const answer = await send({ call, emit, signal, stream: asking.stream ?? true, note });
    return { parts, note, answer };
  } catch (error) {
    if (!ConsortError.is(error)) throw error;
    return { parts, note, error };
  }
}

async function askFor(script: Script, asking: Asking = {}): Promise<Heard> {
  upstream.play(script);
  return ask(asking);
}

const textIn = (parts: readonly Part[]) =>
  parts.map((part) => (part.type === 'text-delta' ? part.text : '')).join('');
const rawIn = (parts: readonly Part[]) => parts.flatMap(({ raw }) => raw ?? []);
const fixture = (name: string) => readFileSync(new URL(`../fixtures/upstreams/${name}`, import.meta.url));

/** The data of the events of a capture, as they stand there. */
function eventsOf(capture: Buffer): string[] {
  return capture
    .toString('utf8')
    .split(/\r?\n\r?\n/)
    .filter((part) => part.startsWith('data: ') && part !== 'data: [DONE]')
    .map((part) => part.slice('data: '.length));
}

t.test(
  'reads the streams of each kind of server, in one piece and in many, and keeps their bytes',
  async (t) => {
    const expected = {
      'openai.sse': { text: 'Two spiders have sixteen legs. 🕷️', finishReason: 'stop', usage: [14, 9] },
      'vllm.sse': { text: '16', reasoning: 'Eight each.', finishReason: 'stop', usage: [3, 6] },
      'llama-cpp.sse': { text: 'Sixteen.', finishReason: 'length', usage: [11, 3] },
    };
    for (const [name, { usage, finishReason, ...message }] of Object.entries(expected)) {
      const capture = fixture(name);
      const pieces: Step[] = [];
      for (let at = 0; at < capture.length; at += 37) pieces.push(capture.subarray(at, at + 37));
      for (const steps of [[capture], pieces]) {
        const { answer, parts } = await askFor(stream(...steps));
        t.strictSame(answer?.message, message, name);
        t.equal(answer?.finishReason, finishReason);
        t.strictSame(answer?.usage, { inputTokens: usage[0], outputTokens: usage[1] });
        t.equal(textIn(parts), message.text);
        t.strictSame(rawIn(parts), eventsOf(capture), 'every event once, in order, byte for byte');
      }
    }
    const { answer } = await askFor(stream(fixture('vllm.sse')));
    t.strictSame(answer?.promptTokenIds, [151_644, 872, 198]);
    t.strictSame(answer?.tokenIds, [23_415, 1817, 13, 16, 21, 151_645]);
    t.match(answer?.logprobs, [{ token: 'Eight' }, { token: ' each.' }, { token: '16' }]);
  },
);

t.test(
  'gives parallel tool calls that share an index indexes of their own, and their right end',
  async (t) => {
    const { answer, parts } = await askFor(stream(fixture('ollama-tools.sse')));
    t.strictSame(answer?.message.toolCalls, [
      { id: 'call_a1', type: 'function', function: { name: 'legs', arguments: '{"animal":"spider"}' } },
      { id: 'call_b2', type: 'function', function: { name: 'legs', arguments: '{"animal":"ant"}' } },
    ]);
    t.equal(answer?.finishReason, 'tool_calls', 'although it said stop');
    const sent = rawIn(parts).map((raw) => JSON.parse(raw).choices[0]);
    t.strictSame(
      sent.flatMap((choice) => choice?.delta.tool_calls ?? []).map(({ index, id }) => [index, id]),
      [
        [0, 'call_a1'],
        [1, 'call_b2'],
      ],
      'in the bytes that pass through, too',
    );
    t.equal(sent.find((choice) => choice?.finish_reason)?.finish_reason, 'tool_calls');
    const untouched = eventsOf(fixture('ollama-tools.sse'));
    t.equal(rawIn(parts)[0], untouched[0], 'what is right is not written anew');
    t.equal(rawIn(parts)[3], untouched[3]);
  },
);

t.test('collects tool calls that come in pieces', async (t) => {
  const call = (index: number, more: object) => chunk({ tool_calls: [{ index, ...more }] });
  const { answer, parts } = await askFor(
    stream(
      call(0, { id: 'a', type: 'function', function: { name: 'f', arguments: '' } }),
      call(0, { function: { arguments: '{"x":' } }),
      // An index that its id follows only later, and one that repeats its id.
      call(1, { function: { name: 'g', arguments: '{' } }),
      call(1, { id: 'b', function: { arguments: '"y":2' } }),
      call(0, { id: 'a', function: { arguments: '1}' } }),
      call(1, { function: { arguments: '}' } }),
      chunk({}, 'length'),
      event('[DONE]'),
    ),
  );
  t.strictSame(answer?.message.toolCalls, [
    { id: 'a', type: 'function', function: { name: 'f', arguments: '{"x":1}' } },
    { id: 'b', type: 'function', function: { name: 'g', arguments: '{"y":2}' } },
  ]);
  t.equal(answer?.finishReason, 'length', 'a tool call that was cut off is not complete');
  t.strictSame(
    parts.flatMap((part) => (part.type === 'tool-call-delta' ? [part.index] : [])),
    [0, 0, 1, 1, 0, 1],
  );
});

t.test('collects the first of several choices and passes all of them', async (t) => {
  const two = (index: number, delta: object, finish: string | null = null) =>
    event({ choices: [{ index, delta, finish_reason: finish }] });
  const tool = { tool_calls: [{ index: 0, id: 'z', function: { name: 'h', arguments: '{}' } }] };
  const { answer, parts } = await askFor(
    stream(
      two(1, { content: 'no' }),
      two(0, { content: 'yes' }),
      two(1, tool),
      two(1, {}, 'tool_calls'),
      two(0, {}, 'stop'),
      event('[DONE]'),
    ),
  );
  t.strictSame(answer?.message, { text: 'yes' });
  t.equal(answer?.finishReason, 'stop');
  t.strictSame(
    parts.map(({ choice }) => choice),
    [1, 0, 1, 1, 0],
  );
});

t.test('gives each word when it comes', async (t) => {
  const at: number[] = [];
  const words = Array.from({ length: 5 }, (_, index): Step[] => [
    chunk({ content: `${index}` }).replaceAll('\n', '\r\n'),
    { pauseMs: 30 },
  ]);
  upstream.play(stream(...words.flat(), chunk({}, 'stop')));
  await ask({
    emit: () => {
      at.push(performance.now());
    },
  });
  const gaps = at.slice(1).map((time, index) => time - at[index]!);
  t.equal(gaps.length, 5);
  t.ok(
    gaps.every((gap) => gap > 10),
    `gaps of ${gaps.map(Math.round).join(', ')} ms`,
  );
});

t.test('sends exactly the call', async (t) => {
  upstream.play(spoken('ok'), said('ok'));
  const call = {
    messages: [{ role: 'user' as const, content: 'How many?', custom: [1, null] }],
    sampling: { temperature: 0, max_tokens: 5, seed: 7 },
    extra: {
      model: 'consort-name',
      logit_bias: { 5: -1 },
      stop: null,
      stream_options: { include_obfuscation: false },
    },
    tools: [{ type: 'function', function: { name: 'f' } }],
    responseFormat: { type: 'json_object' },
  };
  const body = {
    logit_bias: { 5: -1 },
    stop: null,
    temperature: 0,
    max_tokens: 5,
    seed: 7,
    model: 'org/Their-Model',
    messages: call.messages,
    tools: call.tools,
    response_format: call.responseFormat,
  };
  await ask({ call });
  await ask({ call, stream: false });
  const [streamed, whole] = upstream.received;
  t.strictSame(streamed?.body, {
    ...body,
    stream: true,
    stream_options: { include_obfuscation: false, include_usage: true },
  });
  t.strictSame(whole?.body, { ...body, stream: false });
  t.equal(streamed?.path, '/v1/chat/completions');
  t.match(streamed?.headers, { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' });
  t.strictSame(
    Object.keys(streamed?.headers ?? {}).toSorted(),
    ['accept', 'authorization', 'connection', 'content-length', 'content-type', 'host'],
    'no compression asked for, and nothing else',
  );
  await ask({}, `${upstream.url}/deployments/x/?api-version=2`);
  t.equal(upstream.received[2]?.path, '/v1/deployments/x/chat/completions?api-version=2');
});

t.test('takes a whole answer', async (t) => {
  const message = {
    role: 'assistant',
    content: null,
    tool_calls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } }],
  };
  const script = json({
    choices: [{ index: 0, message, finish_reason: 'tool_calls' }],
    usage: { prompt_tokens: 3, completion_tokens: 4 },
    extra_field: 1,
  });
  const { answer, parts } = await askFor(script, { stream: false });
  t.match(answer, { finishReason: 'tool_calls', usage: { inputTokens: 3, outputTokens: 4 } });
  t.strictSame(rawIn(parts), script.steps);
});

t.test(
  'turns a whole answer into one chunk where a stream was asked for, and the other way round',
  async (t) => {
    const tool = { id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } };
    const message = { role: 'assistant', content: 'Hi', tool_calls: [tool] };
    const whole = json({
      id: 'x',
      object: 'chat.completion',
      choices: [{ index: 0, message, finish_reason: 'stop' }],
    });
    const streamed = await askFor(whole, { stream: true });
    t.equal(rawIn(streamed.parts).length, 1);
    t.strictSame(JSON.parse(rawIn(streamed.parts)[0] ?? ''), {
      id: 'x',
      object: 'chat.completion.chunk',
      choices: [
        {
          index: 0,
          finish_reason: 'tool_calls',
          delta: { role: 'assistant', content: 'Hi', tool_calls: [{ index: 0, ...tool }] },
        },
      ],
    });
    const asked = await askFor(spoken('Hel', 'lo'), { stream: false });
    t.equal(asked.answer?.message.text, 'Hello');
    t.strictSame(rawIn(asked.parts), [], 'a chunk is not passed off as a body');
  },
);

t.test('reports an error inside a stream wherever it stands', async (t) => {
  const failure = event({ error: { message: 'Overloaded', type: 'server_error', code: 529 } });
  const old = event({ object: 'error', message: 'Context too long', type: 'BadRequestError', code: 400 });
  for (const [name, steps, message] of [
    ['first', [failure], 'Overloaded (529)'],
    ['first, then [DONE]', [failure, event('[DONE]')], 'Overloaded (529)'],
    ['after the role', [chunk({ role: 'assistant', content: '' }), failure], 'Overloaded (529)'],
    ['middle', [chunk({ content: 'Six' }), failure, chunk({ content: 'teen' })], 'Overloaded (529)'],
    ['last', [chunk({ content: 'Six' }), chunk({}, 'stop'), failure], 'Overloaded (529)'],
    ['named', [`event: error\n${failure}`], 'Overloaded (529)'],
    ['a string', [event({ error: 'Model is loading' })], 'Model is loading'],
    ['in the old form', [old], 'Context too long (400)'],
    ['openrouter', [fixture('openrouter-error.sse')], 'Rate limited by the provider (429)'],
  ] as const) {
    const { error, parts } = await askFor(stream(...steps));
    t.match(error, { code: 'upstream_error', status: 502 }, name);
    t.match(error?.message, `Model ours reported an error inside its stream: ${message}`);
    t.notOk(parts.some((part) => part.type === 'text-delta' && part.text === 'teen'));
    if (!name.startsWith('m') && !name.startsWith('l') && name !== 'openrouter') {
      t.strictSame(parts, [], 'nothing was heard, so that it can be asked again');
    }
  }
  const whole = await askFor(json({ error: { message: 'No' } }), { stream: false });
  t.equal(whole.error?.code, 'upstream_error');
});

t.test('never takes a stream that breaks off for an answer', async (t) => {
  for (const [name, steps] of Object.entries<Step[]>({
    'clean end': [chunk({ content: 'Six' })],
    'clean end before anything': [],
    'end inside an event': [chunk({ content: 'Six' }), chunk({}, 'stop').slice(0, -2)],
    reset: [chunk({ content: 'Six' }), { pauseMs: 20 }, RESET],
    'reset after the usage': [chunk({ content: 'Six' }), usageChunk(7, 1), { pauseMs: 20 }, RESET],
  })) {
    const { error, parts, note } = await askFor(stream(...steps));
    t.equal(error?.code, 'upstream_truncated', name);
    t.equal(textIn(parts), steps.length === 0 ? '' : 'Six');
    const known = name.includes('usage');
    t.strictSame(note.lostUsage, { inputTokens: known ? 7 : 0, outputTokens: known ? 1 : 0 }, 'counted once');
  }
  const unheard = await askFor(stream(RESET));
  t.equal(unheard.error?.code, 'upstream_unreachable');
  const short = await askFor(
    { headers: { 'content-type': 'application/json' }, steps: ['{"choices":[{"mess'] },
    { stream: false },
  );
  t.equal(short.error?.code, 'upstream_malformed');
});

t.test('is done at [DONE], even if the connection stays open or brings more', async (t) => {
  const begun = performance.now();
  const { answer } = await askFor(stream(chunk({ content: 'ok' }), event('[DONE]') + event('garbage'), HANG));
  t.equal(answer?.message.text, 'ok');
  t.ok(performance.now() - begun < 1_000);
});

t.test('refuses what is no chat completion, and says what came', async (t) => {
  const sends: [string, Script, RegExp][] = [
    ['text in a stream', stream(event('hello')), /no[t]? .*hello|hello/],
    ['a number', stream(event('5')), /5/],
    ['choices of another kind', stream(event({ choices: [{ delta: { content: 5 } }] })), /content/],
    ['a page', { headers: { 'content-type': 'text/html' }, steps: ['<html>Hi</html>'] }, /<html>/],
    ['gzip', { headers: { ...SSE, 'content-encoding': 'gzip' }, steps: [gzipSync('data: {}\n\n')] }, /gzip/],
  ];
  for (const [name, script, message] of sends) {
    const { error } = await askFor(script);
    t.match(error, { code: 'upstream_malformed', status: 502 }, name);
    t.match(error?.message, message);
  }
  const endless = await askFor(stream(`data: ${'x'.repeat(5_000_000)}`));
  t.match(endless.error, { code: 'upstream_malformed', message: /more than \d+ characters/ });
});

t.test('ignores comments, empty events and blank data', async (t) => {
  const { answer, parts } = await askFor(
    stream(
      ': PROCESSING\n\n',
      'event: keepalive\n\n',
      'data:\n\n',
      'data:   \n\n',
      chunk({ content: 'ok' }),
      'data: \n\n',
      chunk({}, 'stop'),
      'data: [DONE] \n\n',
    ),
  );
  t.equal(answer?.message.text, 'ok');
  t.equal(parts.length, 2);
});

t.test('keeps a status that blames the request, and answers for the others itself', async (t) => {
  for (const [status, ours, retryable] of [
    [400, 400, false],
    [404, 404, false],
    [413, 413, false],
    [422, 422, false],
    [429, 429, true],
    [401, 502, false],
    [403, 502, false],
    [408, 502, true],
    [302, 502, false],
    [500, 502, true],
    [503, 502, true],
    [529, 502, true],
  ] as const) {
    const script = json({ error: { message: 'Because.', code: 'reason' } }, status);
    const { error } = await askFor(script, { stream: status % 2 === 0 });
    t.match(error, { code: 'upstream_status', status: ours, retryable }, `HTTP ${status}`);
    t.equal(error?.message, `Model ours answered HTTP ${status}: Because. (reason)`);
  }
});

t.test('finds the message in any body of a failure', async (t) => {
  const text = { 'content-type': 'text/plain' };
  for (const [body, message] of [
    [JSON.stringify({ error: 'flat' }), 'flat'],
    [JSON.stringify({ message: 'top', type: 'x' }), 'top (x)'],
    [JSON.stringify({ error: { message: { nested: 1 } } }), '{"nested":1}'],
    [JSON.stringify({ detail: 'fastapi' }), '{"detail":"fastapi"}'],
    ['plain words', 'plain words'],
    ['', ''],
    [
      '<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>',
      'an HTML page: 502 Bad Gateway',
    ],
    ['<html><body>nginx</body></html>', 'an HTML page: untitled'],
    ['x'.repeat(100_000), 'x'.repeat(500)],
    [JSON.stringify({ error: { message: 'x'.repeat(60_000) } }), 'x'.repeat(500)],
  ] as const) {
    const { error } = await askFor({ status: 500, headers: text, steps: [body] });
    t.equal(error?.message, `Model ours answered HTTP 500: ${message}`);
  }
  const gzip = await askFor({ status: 500, headers: { 'content-encoding': 'gzip' }, steps: [gzipSync('x')] });
  t.match(gzip.error?.message, /a body in gzip/);
});

t.test('never repeats its key, wherever the upstream quotes it', async (t) => {
  const quoted = `Incorrect API key provided: ${KEY}.`;
  const filler = 'x'.repeat(500 - quoted.length + 8);
  for (const script of [
    json({ error: { message: quoted } }, 401),
    { status: 401, steps: [quoted] },
    { status: 500, steps: [`${filler}${quoted}`] },
    stream(event({ error: { message: quoted } })),
    stream(chunk({ content: 'x' }), event(quoted)),
    json({ wrong: quoted, choices: 5 }),
  ]) {
    const { error } = await askFor(script);
    const shown = JSON.stringify([error?.message, error?.toBody(), error?.stack, String(error?.cause)]);
    t.notMatch(shown, /canary/);
    t.match(error?.message, /redacted|xxx/);
  }
});

t.test('reads how long it is asked to wait, in all the forms there are', async (t) => {
  const { error } = await askFor(json({}, 429, { 'retry-after': '7' }));
  t.equal(error?.retryAfterMs, 7_000);
  const now = Date.parse('2026-01-01T00:00:00Z');
  const unix = now / 1000;
  for (const [headers, ms] of [
    [{ 'retry-after': '0' }, 0],
    [{ 'retry-after': '1.5' }, 1_500],
    [{ 'retry-after': 'Thu, 01 Jan 2026 00:00:09 GMT' }, 9_000],
    [{ 'retry-after': 'Thu, 01 Jan 2026 00:00:00 GMT' }, 0],
    [{ 'retry-after': 'Wed, 31 Dec 2025 00:00:00 GMT' }, 0],
    [{ 'retry-after': ['3', '9'] }, 3_000],
    [{ 'retry-after': '999999999' }, 86_400_000],
    [{ 'retry-after': '-1' }, undefined],
    [{ 'retry-after': 'soon' }, undefined],
    [{ 'retry-after': '' }, undefined],
    [{ 'retry-after': 'Infinity' }, undefined],
    [{}, undefined],
    [{ 'retry-after-ms': '250', 'retry-after': '1' }, 250],
    [{ 'retry-after-ms': 'x', 'retry-after': '1' }, 1_000],
    [{ 'retry-after-ms': '-5', 'retry-after': '1' }, 1_000],
    [{ 'x-ratelimit-reset-requests': '6m0s' }, 360_000],
    [{ 'x-ratelimit-reset-tokens': '7.66s' }, 7_660],
    [{ 'x-ratelimit-reset-tokens': '20ms' }, 20],
    [{ 'x-ratelimit-reset-requests': '1s', 'x-ratelimit-reset-tokens': '1h2m' }, 3_720_000],
    [
      {
        'x-ratelimit-reset-requests': '9s',
        'x-ratelimit-remaining-requests': '0',
        'x-ratelimit-reset-tokens': '1h2m',
        'x-ratelimit-remaining-tokens': '80',
      },
      9_000,
    ],
    [{ 'anthropic-ratelimit-tokens-reset': '2026-01-01T00:00:04Z' }, 4_000],
    [{ 'x-ratelimit-reset': `${unix + 3}` }, 3_000],
    [{ 'x-ratelimit-reset': `${now + 1_500}` }, 1_500],
    [{ 'ratelimit-reset': '12', 'retry-after': '2' }, 2_000],
    [{ 'ratelimit-reset': '12' }, 12_000],
    [{ 'x-ratelimit-limit-requests': '60', 'x-ratelimit-remaining-requests': '0' }, undefined],
    [{ 'x-ratelimit-reset': 'never' }, undefined],
  ] as const) {
    t.equal(askedWaitMs(headers as Headers, 429, now), ms, JSON.stringify(headers));
  }
  t.equal(askedWaitMs({ 'x-ratelimit-reset': '5' }, 503, now), undefined, 'every answer may bear limits');
  t.equal(askedWaitMs({ 'retry-after': '5' }, 503, now), 5_000);
});

t.test('gives up on silence, and no sign of life but words counts', async (t) => {
  const pings = (step: string): Step[] => Array.from({ length: 40 }, () => [step, { pauseMs: 15 }]).flat();
  const role = chunk({ role: 'assistant', content: '' });
  const timeouts = { firstPartMs: 80, partMs: 80 };
  for (const [name, steps, phase] of [
    ['nothing', [HANG], 'first part'],
    ['comments', pings(': ping\n\n'), 'first part'],
    ['blank data', pings('data:\n\n'), 'first part'],
    ['chunks without words', pings(role), 'first part'],
    ['silence after a word', [chunk({ content: 'Six' }), HANG], 'between parts'],
    ['comments after a word', [chunk({ content: 'Six' }), ...pings(': ping\n\n')], 'between parts'],
    ['empty chunks after a word', [chunk({ content: 'Six' }), ...pings(role)], 'between parts'],
  ] as const) {
    const begun = performance.now();
    const { error, parts } = await askFor(stream(...steps), { timeouts });
    t.match(error, { code: 'upstream_timeout', status: 504 }, name);
    t.match(error?.message, `sent nothing for 80 ms (${phase})`);
    t.ok(performance.now() - begun < 500);
    t.equal(textIn(parts), phase === 'first part' ? '' : 'Six');
    await upstream.received[0]?.left;
  }
});

t.test('lets words of any kind count as life, also those it does not read', async (t) => {
  const steps = [
    { reasoning_content: 'hm' },
    { refusal: 'no' },
    { audio: { data: 'AA' } },
    { content: 'ok' },
  ];
  const { answer, parts } = await askFor(
    stream(...steps.flatMap((delta): Step[] => [chunk(delta), { pauseMs: 50 }]), chunk({}, 'stop')),
    { timeouts: { firstPartMs: 90, partMs: 90 } },
  );
  t.equal(answer?.message.text, 'ok');
  t.equal(rawIn(parts).length, 5);
});

t.test('bounds the whole call, streamed or not', async (t) => {
  const endless: Step[] = Array.from({ length: 60 }, (): Step[] => [
    chunk({ content: 'x' }),
    { pauseMs: 10 },
  ]).flat();
  for (const [script, asking] of [
    [stream(...endless), { stream: true }],
    [{ headers: { 'content-type': 'application/json' }, steps: ['{', HANG] }, { stream: false }],
  ] as [Script, Asking][]) {
    const { error } = await askFor(script, { ...asking, timeouts: { totalMs: 120, firstPartMs: 60 } });
    t.match(error, { code: 'upstream_timeout' });
    t.match(error?.message, 'sent nothing for 120 ms (whole call)');
    await upstream.received[0]?.left;
  }
});

t.test('closes the connection when the call is stopped, at any time', async (t) => {
  const reason = new ConsortError('client_gone');
  for (const [name, steps] of Object.entries<Step[]>({
    'before the headers': [],
    'before a word': [': ping\n\n', HANG],
    'after a word': [chunk({ content: 'Six' }), HANG],
    'after the usage': [chunk({ content: 'Six' }), usageChunk(7, 1), HANG],
  })) {
    const control = new AbortController();
    if (name === 'before the headers') upstream.play(stream({ pauseMs: 3_000 }));
    else upstream.play(stream(...steps));
    const asked = ask({ signal: control.signal });
    await upstream.until(1);
    await sleep(20);
    const begun = performance.now();
    control.abort(reason);
    const { error, note } = await asked;
    t.equal(error, reason, name);
    t.equal(note.lostUsage.inputTokens, name === 'after the usage' ? 7 : 0, 'counted once');
    const left = await upstream.received[0]?.left;
    t.ok(left! - begun < 100, `the upstream saw it after ${Math.round(left! - begun)} ms`);
  }
  upstream.play(spoken('ok'));
  const stopped = ask({ signal: AbortSignal.abort(reason) });
  t.equal((await stopped).error, reason);
  t.equal(upstream.received.length, 0, 'a call that was stopped before is not sent');
});

t.test('does not send a call that was stopped while it waited for a connection', async (t) => {
  upstream.play(stream(chunk({ content: 'x' }), { pauseMs: 150 }, chunk({}, 'stop')));
  const { send, close } = openaiCompatible.open(
    modelAt(upstream.url, { model: { connections: 1 }, timeouts: { totalMs: 4_000 } }),
  );
  opened.push(close);
  const start = (signal: AbortSignal) => {
    const note = { attempts: 0, reused: false, lostUsage: { inputTokens: 0, outputTokens: 0 } };
    const call = {
      slot: 's',
      member: memberNamed('ours'),
      purpose: 'answer',
      messages: [],
      sampling: {},
      sample: 0,
      reads: [],
      speaks: true,
    } as const;
    return send({ call, emit: () => undefined, signal, stream: true, note });
  };
  const first = start(new AbortController().signal);
  const control = new AbortController();
  const second = start(control.signal);
  second.catch(() => undefined);
  await upstream.until(1);
  control.abort(new ConsortError('client_gone'));
  await t.rejects(second, { code: 'client_gone' });
  await first;
  t.equal((await start(new AbortController().signal)).message.text, 'x');
  t.equal(upstream.received.length, 2);
});

t.test('holds the upstream back while its reader lags, and notices silence afterwards', async (t) => {
  const line = chunk({ content: 'x'.repeat(10_000) });
  let written = 0;
  const total = 3_000;
  upstream.play(({ response }) => {
    void (async () => {
      const closed = once(response, 'close');
      await setImmediate();
      while (written < total && !response.destroyed) {
        if (!response.write(line)) await Promise.race([once(response, 'drain'), closed]);
        written++;
      }
    })();
    return stream(HANG);
  });
  const lag = Promise.withResolvers<void>();
  let words = 0;
  const asked = ask({
    timeouts: { firstPartMs: 150, partMs: 150, totalMs: 20_000 },
    emit: () => (++words === 5 ? lag.promise : undefined),
  });
  await upstream.until(1);
  await sleep(250);
  const held = written;
  t.ok(held < total / 2, `${held} of ${total} events left the upstream while nobody read`);
  lag.resolve();
  const { error } = await asked;
  t.equal(words, total, 'all of them came in the end');
  t.match(error?.message, 'sent nothing for 150 ms (between parts)', 'the lag was no silence, this was');
});

t.test('says why a server cannot be reached', async (t) => {
  const gone = await startUpstream();
  await gone.close();
  const { error } = await ask({}, gone.url);
  t.match(error, { code: 'upstream_unreachable', retryable: true });
  t.match(error?.message, 'ECONNREFUSED');
});

t.test('ends calls under way when it is closed', async (t) => {
  upstream.play(stream(chunk({ content: 'x' }), HANG));
  const { send, close } = openaiCompatible.open(modelAt(upstream.url));
  const note = { attempts: 0, reused: false, lostUsage: { inputTokens: 0, outputTokens: 0 } };
  const call = {
    slot: 's',
    member: memberNamed('ours'),
    purpose: 'answer',
    messages: [],
    sampling: {},
    sample: 0,
    reads: [],
    speaks: true,
  } as const;
  const heard = Promise.withResolvers<void>();
  const asked = send({
    call,
    emit: () => heard.resolve(),
    signal: new AbortController().signal,
    stream: true,
    note,
  });
  await heard.promise;
  await Promise.all([close(), t.rejects(asked, { code: 'upstream_truncated' })]);
});

t.end();
