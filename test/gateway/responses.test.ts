/** The Responses API: the official client, unmodified, and the events as they stand on the wire. */
import { hash } from 'node:crypto';
import { join } from 'node:path';
import fc from 'fast-check';
import OpenAI from 'openai';
import type { ResponseStreamEvent } from 'openai/resources/responses/responses';
import t, { type Test } from 'tap';
import { openStore } from '../../src/store/index.ts';
import { send, startGateway } from '../support/gateway.ts';
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
const [ada, bob] = upstreams as [MockUpstream, MockUpstream];
const store = await openStore(`sqlite:${join(t.testdir(), 'responses.db')}`);
t.teardown(() => store.close());

const keys = ['one', 'two', 'poor'].map((name) => ({
  name,
  sha256: hash('sha256', `sk-${name}`),
  ...(name === 'poor' && { limits: { tokensPerMinute: 1 } }),
}));
const gateway = await startGateway(
  t,
  {
    server: { port: 0, maxBodyBytes: 600_000 },
    auth: { required: true, keys },
    models: [
      ...['ada', 'bob'].map((id, index) => ({
        id,
        provider: 'openai-compatible',
        baseUrl: upstreams[index]?.url,
        retries: 0,
        breaker: { enabled: false },
      })),
      { id: 'sim-atlas', provider: 'sim', delays: false },
    ],
    pools: [{ id: 'pair', members: ['ada', 'bob'] }],
    systems: ['single', 'vote', 'fuse'].map((id) => ({ id, pool: 'pair', protocol: id })),
  },
  { turns: store.turns },
);
const URL = `${gateway.url}/v1/responses`;
const key = 'sk-one';
const client = new OpenAI({ apiKey: key, baseURL: `${gateway.url}/v1`, maxRetries: 0 });
const post = (body: object, as = key) => send(URL, { model: 'ada', input: 'Legs?', ...body }, { key: as });

t.beforeEach(() => {
  for (const one of upstreams) one.play(either('The final answer is 16.'));
});

/** Every field that the official types have, by whether it must be there. */
type Required<E> = { [K in keyof E as object extends Pick<E, K> ? never : K]: true };
type Shape<T extends ResponseStreamEvent['type']> = Required<Extract<ResponseStreamEvent, { type: T }>>;
const lifecycle = { type: true, sequence_number: true, response: true } as const;
const item = { type: true, sequence_number: true, output_index: true, item: true } as const;
const inItem = { type: true, sequence_number: true, item_id: true, output_index: true } as const;
const inPart = { ...inItem, content_index: true } as const;
const SHAPES = {
  'response.created': lifecycle satisfies Shape<'response.created'>,
  'response.in_progress': lifecycle satisfies Shape<'response.in_progress'>,
  'response.completed': lifecycle satisfies Shape<'response.completed'>,
  'response.incomplete': lifecycle satisfies Shape<'response.incomplete'>,
  'response.failed': lifecycle satisfies Shape<'response.failed'>,
  'response.output_item.added': item satisfies Shape<'response.output_item.added'>,
  'response.output_item.done': item satisfies Shape<'response.output_item.done'>,
  'response.content_part.added': { ...inPart, part: true } satisfies Shape<'response.content_part.added'>,
  'response.content_part.done': { ...inPart, part: true } satisfies Shape<'response.content_part.done'>,
  'response.output_text.delta': {
    ...inPart,
    delta: true,
    logprobs: true,
  } satisfies Shape<'response.output_text.delta'>,
  'response.output_text.done': {
    ...inPart,
    text: true,
    logprobs: true,
  } satisfies Shape<'response.output_text.done'>,
  'response.reasoning_text.delta': {
    ...inPart,
    delta: true,
  } satisfies Shape<'response.reasoning_text.delta'>,
  'response.reasoning_text.done': { ...inPart, text: true } satisfies Shape<'response.reasoning_text.done'>,
  'response.function_call_arguments.delta': {
    ...inItem,
    delta: true,
  } satisfies Shape<'response.function_call_arguments.delta'>,
  'response.function_call_arguments.done': {
    ...inItem,
    name: true,
    arguments: true,
  } satisfies Shape<'response.function_call_arguments.done'>,
};

/** The events as they stand there: named, in sequence, with the fields of their kind. */
function eventsOf(t: Test, text: string) {
  const blocks = text.split('\n\n').filter((block) => block !== '' && !block.startsWith(':'));
  return blocks.map((block, index) => {
    const [name, data] = block.split('\n');
    const body = JSON.parse(data?.slice('data: '.length) ?? '');
    t.equal(name, `event: ${body.type}`);
    t.equal(body.sequence_number, index);
    const shape = SHAPES[body.type as keyof typeof SHAPES];
    t.strictSame(Object.keys(body).toSorted(), Object.keys(shape).toSorted(), body.type);
    return body;
  });
}

t.test('a whole answer, of a model and of teams', async (t) => {
  for (const model of ['ada', 'consort/vote', 'consort/fuse']) {
    const response = await client.responses.create({
      model,
      input: 'How many legs have two spiders?',
      instructions: 'Be brief.',
      max_output_tokens: 50,
      temperature: 0.5,
      metadata: { a: 'b' },
    });
    t.equal(response.output_text, 'The final answer is 16.');
    t.match(response, {
      object: 'response',
      status: 'completed',
      model,
      store: true,
      error: null,
      instructions: 'Be brief.',
      max_output_tokens: 50,
      metadata: { a: 'b' },
      output: [{ type: 'message', role: 'assistant', status: 'completed' }],
      usage: { input_tokens: { ada: 7, 'consort/vote': 14, 'consort/fuse': 21 }[model] },
    });
    const sent = ada.received[0]?.body;
    t.match(sent, { max_completion_tokens: 50, temperature: 0.5 });
    if (model === 'ada') {
      t.strictSame(sent?.['messages'], [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: 'How many legs have two spiders?' },
      ]);
    }
  }
});

t.test('a stream is the full sequence of typed events, and ends as the whole answer does', async (t) => {
  for (const model of ['ada', 'consort/single', 'consort/vote', 'sim-atlas']) {
    const { text, headers } = await post({ model, stream: true });
    t.equal(headers.get('content-type'), 'text/event-stream; charset=utf-8');
    const events = eventsOf(t, text);
    const types = events.map(({ type }) => type.replace('response.', ''));
    t.strictSame(
      types.filter((type, index) => type !== types[index - 1]),
      [
        'created',
        'in_progress',
        'output_item.added',
        'content_part.added',
        'output_text.delta',
        'output_text.done',
        'content_part.done',
        'output_item.done',
        'completed',
      ],
    );
    const { response } = events.at(-1);
    const outcome = await gateway.outcome(headers.get('x-consort-outcome'));
    t.equal(response.output[0].content[0].text, outcome.answer);
    t.equal(response.id, `resp_${outcome.id}`);
    t.equal(response.usage.total_tokens, outcome.usage.inputTokens + outcome.usage.outputTokens);
    t.strictSame((await send(`${URL}/${response.id}`, undefined, { key })).json, response, 'as it is kept');
  }
  const gathered = client.responses.stream({ model: 'consort/single', input: 'Legs?' });
  const deltas: string[] = [];
  gathered.on('response.output_text.delta', ({ delta }) => deltas.push(delta));
  const final = await gathered.finalResponse();
  t.equal(final.output_text, 'The final answer is 16.');
  t.ok(deltas.length > 1, 'word by word');
});

t.test('reasoning, its words and its log-probabilities', async (t) => {
  const logprobs = { content: [{ token: '16', logprob: -0.1, bytes: [49, 54], top_logprobs: [] }] };
  const said = { choices: [{ index: 0, delta: { content: '16' }, logprobs, finish_reason: null }] };
  ada.play(stream(chunk({ reasoning_content: 'Eight' }), event(said), chunk({}, 'length'), event('[DONE]')));
  const { text } = await post({
    stream: true,
    top_logprobs: 1,
    reasoning: { effort: 'low', summary: 'auto' },
  });
  const { type, response } = eventsOf(t, text).at(-1);
  t.equal(type, 'response.incomplete');
  t.match(ada.received[0]?.body, { reasoning_effort: 'low', logprobs: true, top_logprobs: 1 });
  t.match(response, {
    status: 'incomplete',
    incomplete_details: { reason: 'max_output_tokens' },
    output: [
      { type: 'reasoning', content: [{ type: 'reasoning_text', text: 'Eight' }] },
      { type: 'message', status: 'incomplete', content: [{ text: '16', logprobs: [{ token: '16' }] }] },
    ],
  });
});

const tools = [
  { type: 'function' as const, name: 'legs', description: 'd', parameters: { type: 'object' }, strict: true },
];

t.test('calls of functions, streamed and whole, and the turn that brings their results', async (t) => {
  const call = (index: number, id: string, args: string) =>
    chunk({ tool_calls: [{ index, id, type: 'function', function: { name: 'legs', arguments: args } }] });
  const rest = (index: number) => chunk({ tool_calls: [{ index, function: { arguments: '2}' } }] });
  for (const model of ['ada', 'consort/single', 'consort/fuse']) {
    const script = stream(
      call(0, 'a', '{"n":'),
      call(1, 'b', '{"n":'),
      rest(0),
      rest(1),
      chunk({}, 'tool_calls'),
      event('[DONE]'),
    );
    ada.play((request) => (request.body['tools'] ? script : either('A draft.')(request)));
    const gathered = client.responses.stream({ model, input: 'Legs?', tools, tool_choice: 'required' });
    const first = await gathered.finalResponse();
    const calls = first.output.filter((one) => one.type === 'function_call');
    t.strictSame(
      calls.map((one) => [one.call_id, one.name, one.arguments, one.status]),
      ['a', 'b'].map((id) => [id, 'legs', '{"n":2}', 'completed']),
      model,
    );
    const sent = ada.received.at(-1)?.body;
    t.strictSame(sent?.['tools'], [
      {
        type: 'function',
        function: { name: 'legs', description: 'd', parameters: { type: 'object' }, strict: true },
      },
    ]);
    t.equal(sent?.['tool_choice'], 'required');
    const outputs = calls.map(({ call_id }) => ({
      type: 'function_call_output' as const,
      call_id,
      output: '8',
    }));
    for (const more of [
      { input: outputs, previous_response_id: first.id },
      { input: [{ role: 'user' as const, content: 'Legs?' }, ...calls, ...outputs], store: false },
    ]) {
      ada.play(either('16'));
      const { data: next, response } = await client.responses
        .create({ model, tools, ...more })
        .withResponse();
      t.equal(next.output_text, '16');
      t.match(next, { store: !('store' in more) });
      const messages = ada.received[0]?.body['messages'];
      t.match((messages as object[]).slice(-3), [
        { role: 'assistant', tool_calls: [{ id: 'a' }, { id: 'b' }] },
        { role: 'tool', tool_call_id: 'a', content: '8' },
        { role: 'tool', tool_call_id: 'b', content: '8' },
      ]);
      const { plan } = await gateway.outcome(response.headers.get('x-consort-outcome'));
      if (model !== 'ada') t.type(plan.resumes, 'string', 'the run of the team goes on');
    }
  }
});

t.test('a conversation goes on from what is kept, for the key that it was kept for', async (t) => {
  const first = await client.responses.create({ model: 'ada', input: 'Legs?', instructions: 'Once.' });
  const next = { model: 'consort/single', input: 'Sure?', previous_response_id: first.id };
  const second = await client.responses.create(next);
  t.equal(second.previous_response_id, first.id);
  t.strictSame(
    ada.received.at(-1)?.body['messages'],
    [
      { role: 'user', content: 'Legs?' },
      { role: 'assistant', content: 'The final answer is 16.' },
      { role: 'user', content: 'Sure?' },
    ],
    'without the instructions of the turn before',
  );
  t.strictSame((await client.responses.retrieve(first.id)).output, first.output);
  const foreign = await post({ previous_response_id: first.id }, 'sk-two');
  t.equal(foreign.status, 400);
  t.match(foreign.json.error, { code: 'response_not_found', param: 'previous_response_id' });
  t.equal((await send(`${URL}/${first.id}`, undefined, { key: 'sk-two' })).status, 404);
  t.equal((await send(`${URL}/${first.id}?stream=true`, undefined, { key })).status, 400);
  const deleted = await send(`${URL}/${first.id}`, undefined, { key, method: 'DELETE' });
  t.strictSame(deleted.json, { id: first.id, object: 'response', deleted: true });
  await t.rejects(client.responses.retrieve(first.id), { code: 'response_not_found' });
  await t.rejects(client.responses.delete(first.id), { code: 'response_not_found' });
  await t.rejects(client.responses.create({ ...next }), { code: 'response_not_found' });
  const unkept = await client.responses.create({ model: 'ada', input: 'Legs?', store: false });
  t.match(unkept, { store: false });
  await t.rejects(client.responses.retrieve(unkept.id), { code: 'response_not_found' });
  const large = await post({ input: 'x'.repeat(300_000) });
  t.equal(large.json.store, false, 'too large to be kept');
});

t.test('images, files and turns of every role reach the model', async (t) => {
  const image = { type: 'input_image', image_url: 'data:image/png;base64,AA==', detail: 'low' };
  await post({
    input: [
      { role: 'developer', content: 'Be brief.' },
      { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Legs?' }, image] },
      { type: 'reasoning', id: 'rs_1', summary: [] },
      { role: 'assistant', content: [{ type: 'output_text', text: '8', annotations: [] }] },
      { role: 'user', content: [{ type: 'input_text', text: 'Sure?' }] },
    ],
    text: { format: { type: 'json_schema', name: 'n', schema: { type: 'object' }, strict: true } },
  });
  t.strictSame(ada.received[0]?.body['messages'], [
    { role: 'developer', content: 'Be brief.' },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'Legs?' },
        { type: 'image_url', image_url: { url: image.image_url, detail: 'low' } },
      ],
    },
    { role: 'assistant', content: '8' },
    { role: 'user', content: 'Sure?' },
  ]);
  t.strictSame(ada.received[0]?.body['response_format'], {
    type: 'json_schema',
    json_schema: { name: 'n', schema: { type: 'object' }, strict: true },
  });
});

t.test('what cannot be honoured is refused by name', async (t) => {
  const part = (more: object) => ({ input: [{ role: 'user', content: [more] }] });
  for (const [more, param, code = 'not_supported'] of [
    [{ background: true }, 'background'],
    [{ conversation: 'c' }, 'conversation'],
    [{ prompt: { id: 'p' } }, 'prompt'],
    [{ truncation: 'auto' }, 'truncation'],
    [{ include: ['file_search_call.results'] }, 'include'],
    [{ colour: 1 }, 'colour'],
    [{ toString: 1 }, 'toString'],
    [{ tools: [{ type: 'web_search' }] }, 'tools.0.type'],
    [{ tools: [{ type: 'function' }] }, 'tools.0.name', 'invalid_request'],
    [{ tool_choice: { type: 'mcp' } }, 'tool_choice'],
    [{ text: { format: { type: 'grammar' } } }, 'text.format.type'],
    [{ reasoning: { summary: 'detailed' } }, 'reasoning.summary'],
    [{ model: 'consort/vote', reasoning: { effort: 'low' } }, 'reasoning.effort'],
    [{ model: 'consort/vote', tools }, 'tools'],
    [{ input: [{ type: 'item_reference', id: 'x' }] }, 'input.0.type'],
    [{ input: [{ type: 'web_search_call' }] }, 'input.0.type'],
    [part({ type: 'input_image', file_id: 'f' }), 'input.0.content.0.file_id'],
    [part({ type: 'constructor' }), 'input.0.content.0.type'],
    [part({ type: 'input_text' }), 'input.0.content.0.text', 'invalid_request'],
    [{ input: [] }, 'input', 'invalid_request'],
    [{ input: [1] }, 'input.0', 'invalid_request'],
    [{ input: 1 }, 'input', 'invalid_request'],
    [{ input: [{ role: 'user', content: 1 }] }, 'input.0.content', 'invalid_request'],
    [{ input: [{ role: 'usr', content: 'x' }] }, 'input.0.role', 'invalid_request'],
    [{ max_output_tokens: 0 }, 'max_output_tokens', 'invalid_request'],
    [
      { input: [{ type: 'function_call_output', call_id: 'c', output: '' }] },
      'input.0.call_id',
      'invalid_request',
    ],
  ] as const) {
    const { status, json: body } = await post(more);
    t.equal(status, 400, JSON.stringify(more));
    t.match(body.error, { code, param, type: 'invalid_request_error' });
  }
  t.equal(ada.received.length + bob.received.length, 0, 'nobody is asked');
  t.equal((await send(URL, { model: 'ada', input: 'x' })).status, 401);
  t.match((await post({}, 'sk-poor')).json.error, { code: 'rate_limited' });
  t.match((await post({ model: 'nobody' })).json.error, { code: 'model_not_found' });
});

t.test('failures: before the first word with their status, after it as a typed event', async (t) => {
  ada.play(json({ error: { message: 'Slow down' } }, 429));
  for (const isStream of [true, false]) {
    const { status, json: body } = await post({ stream: isStream });
    t.equal(status, 429);
    t.match(body.error, { code: 'upstream_status' });
  }
  for (const model of ['ada', 'consort/single']) {
    ada.play(stream(chunk({ content: 'Six' })));
    const { text } = await post({ model, stream: true });
    const last = eventsOf(t, text).at(-1);
    t.match(last, {
      type: 'response.failed',
      response: {
        status: 'failed',
        store: false,
        error: { code: 'server_error', message: /ada/ },
        consort: { error: { code: 'upstream_truncated' } },
        output: [{ type: 'message', status: 'incomplete', content: [{ text: 'Six' }] }],
      },
    });
    t.notMatch(text, 'DONE');
    t.equal((await send(`${URL}/${last.response.id}`, undefined, { key })).status, 404);
  }
});

t.test('a client that leaves stops the upstream', async (t) => {
  for (const model of ['ada', 'consort/single']) {
    ada.play(stream(chunk({ content: 'Six' }), HANG));
    const answer = await client.responses.create({ model, input: 'Legs?', stream: true });
    for await (const { type } of answer) if (type === 'response.output_text.delta') break;
    await ada.received[0]?.left;
  }
  t.match(await gateway.outcome(gateway.outcomes.at(-1)?.id), { plan: { tenant: 'one' } });
});

t.test('any body gets an answer or a refusal in the envelope', async (t) => {
  const chats = either('16');
  ada.play((request) => (request.path.endsWith('embeddings') ? json({ data: [] }) : chats(request)));
  const item = fc.oneof(
    fc.json().map((text) => JSON.parse(text) as unknown),
    fc.record(
      {
        type: fc.constantFrom('message', 'function_call', 'function_call_output', 'reasoning', 'x'),
        role: fc.constantFrom('user', 'assistant', 'system', 'tool'),
        content: fc.oneof(
          fc.string(),
          fc.array(
            fc.record({
              type: fc.constantFrom('input_text', 'output_text', 'input_image', 'input_file', 'toString'),
              text: fc.oneof(fc.string(), fc.integer()),
            }),
          ),
        ),
        call_id: fc.constantFrom('a', 'b', ''),
        name: fc.string(),
        arguments: fc.string(),
        output: fc.string(),
      },
      { requiredKeys: [] },
    ),
  );
  const value = fc.oneof(fc.constant(undefined), fc.jsonValue());
  const models = fc.constantFrom('ada', 'consort/single', 'consort/vote', 'sim-atlas', 'nobody');
  const bodies = fc.record(
    {
      model: models,
      input: fc.oneof(fc.string(), fc.array(item), value),
      prompt: value,
      stream: fc.constantFrom(true, false, null),
      tools: value,
      tool_choice: value,
      text: value,
      reasoning: value,
      include: value,
      metadata: value,
      logprobs: value,
      previous_response_id: fc.oneof(fc.string(), value),
      consort: value,
      extra: value,
    },
    { requiredKeys: ['model'] },
  );
  const holds = fc.assert(
    fc.asyncProperty(
      fc.constantFrom('responses', 'completions', 'embeddings'),
      fc.oneof(bodies, fc.jsonValue()),
      async (route, body) => {
        const text = JSON.stringify(body) ?? 'null';
        const { status, json: answer } = await send(`${gateway.url}/v1/${route}`, text, { key });
        if (status === 200) return true;
        return status < 500 && typeof answer.error.code === 'string' && !gateway.log().includes('unforeseen');
      },
    ),
    { numRuns: 300 },
  );
  await t.resolves(holds);
});

t.end();
