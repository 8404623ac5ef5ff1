import OpenAI from 'openai';
import t, { type Test } from 'tap';
import { simulatedDocument } from '../../src/config/discover.ts';
import { Site } from '../support/serve.ts';

const messages = [
  {
    role: 'user' as const,
    content: 'Simulated task sim:reason/42. Which four-digit number does it stand for?',
  },
];

async function client(t: Test, delays: boolean): Promise<OpenAI> {
  const document = simulatedDocument(delays, false) as object;
  const site = new Site({
    ...document,
    server: { port: 0, adminPort: 0 },
    store: { url: 'sqlite:consort.db' },
  });
  t.teardown(() => site.close());
  const { url } = await site.serve();
  return new OpenAI({ baseURL: `${url}/v1`, apiKey: 'any', maxRetries: 0 });
}

t.test('the official client takes an answer whole, with the usage of all calls', async (t) => {
  const openai = await client(t, false);
  const answer = await openai.chat.completions.create({ model: 'consort/fuse', messages });
  t.equal(answer.model, 'consort/fuse');
  t.equal(answer.choices[0]?.finish_reason, 'stop');
  t.ok(answer.choices[0]?.message.content);
  t.ok((answer.usage?.completion_tokens ?? 0) > 100, 'five drafts and the fusion are counted');
});

t.test('the official client streams a team with a trace, and gets its usage chunk last', async (t) => {
  const openai = await client(t, true);
  const body = {
    model: 'consort/fuse',
    messages,
    stream: true as const,
    stream_options: { include_usage: true },
    consort: { trace: true },
  };
  const stream = await openai.chat.completions.create(body);
  let text = '';
  let deltas = 0;
  let usage: OpenAI.CompletionUsage | null | undefined;
  for await (const chunk of stream) {
    const delta = chunk.choices[0]?.delta.content;
    if (delta) deltas++;
    text += delta ?? '';
    usage = chunk.usage;
  }
  t.ok(deltas > 5, `${deltas} deltas`);
  t.ok(text.length > 20);
  t.ok((usage?.total_tokens ?? 0) > 100);
});

t.test('the official client can leave a stream', async (t) => {
  const openai = await client(t, true);
  const control = new AbortController();
  const stream = await openai.chat.completions.create(
    { model: 'sim-echo', messages, stream: true },
    { signal: control.signal },
  );
  let chunks = 0;
  for await (const { choices } of stream) {
    chunks += choices.length;
    if (chunks === 3) control.abort();
  }
  t.ok(chunks >= 3 && chunks < 50, `${chunks} chunks`);
});

t.test('the official client sees errors as its own', async (t) => {
  const openai = await client(t, false);
  const missing = openai.chat.completions.create({ model: 'consort/nobody', messages });
  await t.rejects(missing, { status: 404, code: 'model_not_found', param: 'model' });
  const wrong = openai.chat.completions.create({ model: 'consort/vote', messages, n: 17 });
  await t.rejects(wrong, { status: 400, code: 'not_supported', param: 'n' });
});

t.test('the official client lists and retrieves models', async (t) => {
  const openai = await client(t, false);
  const names = (await openai.models.list()).data.map(({ id }) => id);
  t.ok(['consort/vote', 'consort/debate', 'consort/fuse', 'sim-atlas'].every((name) => names.includes(name)));
  t.equal((await openai.models.retrieve('consort/fuse')).id, 'consort/fuse');
});
