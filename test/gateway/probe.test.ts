import t from 'tap';
import Value from 'typebox/value';
import { ModelConfig } from '../../src/contract/config.ts';
import { openaiCompatible } from '../../src/gateway/upstreams/openai-compatible.ts';
import { json, obeying, said, startUpstream, type Received, type Script } from '../support/upstream.ts';

const KEY = 'sk-canary-0123456789';
const upstream = await startUpstream();
t.teardown(() => upstream.close());

type Answering = (request: Received) => Script;

async function probeOf(answering: Answering, more: object = {}) {
  upstream.play(answering);
  const document = {
    id: 'ours',
    provider: 'openai-compatible',
    baseUrl: upstream.url,
    model: 'theirs',
    apiKey: KEY,
  };
  const config: unknown = Value.Default(ModelConfig, { ...document, ...more });
  Value.Assert(ModelConfig, config);
  const report = await openaiCompatible.probe!(config);
  const found = Object.fromEntries(report.findings.map(({ capability, value }) => [capability, value]));
  return { ...report, found, received: [...upstream.received] };
}

const refusal = (message: string, status = 400) => json({ error: { message } }, status);

/** A chat that ends with these extras in its only choice. */
function chatWith(choice: object, more: object = {}): Script {
  const message = { role: 'assistant', content: 'ok' };
  return said('', { choices: [{ index: 0, message, finish_reason: 'stop', ...choice }], ...more });
}

/** As vLLM answers, field by field. */
const vllm: Answering = (request) => {
  const { path, body } = request;
  const has = (name: string) => body[name] !== undefined;
  if (path === '/v1/models') return json({ data: [{ id: 'other' }, { id: 'theirs', max_model_len: 4096 }] });
  if (path === '/v1/completions')
    return json({ choices: [{ text: ' four', logprobs: { tokens: [' four'] } }] });
  if (path !== '/v1/chat/completions') return refusal('Not Found', 404);
  if (has('continue_final_message') && body['add_generation_prompt'] === true)
    return refusal('cannot be both');
  if (has('structured_outputs')) return obeying(([first]) => first!, 'Hello!')(request);
  if (has('logprob_token_ids'))
    return chatWith({ logprobs: { content: [{ token: 'ok', top_logprobs: [{}] }] } });
  if (has('logprobs')) {
    const top = Array.from({ length: Number(body['top_logprobs'] ?? 0) }, () => ({
      token: 'x',
      logprob: -1,
    }));
    return chatWith({ logprobs: { content: [{ token: 'ok', logprob: -1, top_logprobs: top }] } });
  }
  if (has('return_token_ids')) return chatWith({ token_ids: [7] }, { prompt_token_ids: [1, 2] });
  if (has('prompt_logprobs')) return chatWith({}, { prompt_logprobs: [null, {}] });
  if (has('tools')) return chatWith({ message: { tool_calls: [{ id: '1' }] } });
  if (JSON.stringify(body['messages']).includes('image_url'))
    return refusal('theirs is not a multimodal model');
  return said('ok');
};

t.test('an endpoint with everything is found to have it, by effect', async (t) => {
  const { found, requests, usage, error, received, findings } = await probeOf(vllm);
  t.equal(error, undefined);
  t.same(found, {
    reasoning: false,
    context: 4096,
    choice: 'structured_outputs',
    logprobs: 20,
    tokenIds: true,
    tokenLogprobs: true,
    promptLogprobs: true,
    continuation: true,
    completions: true,
    tools: true,
    images: false,
  });
  t.match(findings.at(-1), { sign: 'HTTP 400: theirs is not a multimodal model' });
  t.equal(requests, received.length);
  t.ok(requests <= 20, `${requests} requests`);
  t.ok(usage.inputTokens > 0);
  for (const { headers, body } of received) {
    t.equal(headers.authorization, `Bearer ${KEY}`);
    t.ok(Number(body['max_tokens'] ?? 0) <= 64, 'a few tokens each');
  }
});

t.test('an endpoint that accepts every field and ignores it is found to have none', async (t) => {
  const { found, error } = await probeOf(({ path }) => (path === '/v1/models' ? json({}) : said('ok')));
  t.equal(error, undefined);
  t.same(found, {
    reasoning: false,
    logprobs: 0,
    tokenIds: false,
    promptLogprobs: false,
    continuation: false,
    completions: false,
    tools: false,
    images: false,
  });
});

t.test('what holds an answer to a list is found in the order of its strength', async (t) => {
  const obey = obeying((labels) => labels[1]!, 'Hello!');
  const only =
    (field: string): Answering =>
    (request) =>
      request.body[field] ? obey(request) : said('Hello!');
  for (const [field, choice] of [
    ['structured_outputs', 'structured_outputs'],
    ['guided_choice', 'guided_choice'],
    ['response_format', 'json_schema'],
  ] as const) {
    t.match((await probeOf(only(field))).found, { choice });
  }
  const tokenizing: Answering = ({ path, body }) => {
    if (path === '/tokenize') return json({ tokens: Array.from({ length: 37 }, (_, index) => index) });
    const bias = body['logit_bias'];
    return said(typeof bias === 'object' && bias !== null && '18' in bias ? 'J' : 'Hello!');
  };
  const { found } = await probeOf(tokenizing);
  t.equal(found['choice'], undefined);
  t.match(found['labelTokens'], { A: 0, B: 2, J: 18, 9: 36 });
});

t.test('a model that thinks is left room for it', async (t) => {
  const o: Answering = ({ body }) => {
    if (body['max_tokens'] !== undefined) {
      return refusal("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.");
    }
    return body['logprobs'] ? refusal('logprobs are not supported') : said('ok');
  };
  const strict = await probeOf(o);
  t.equal(strict.error, undefined);
  t.match(strict.found, { reasoning: true, logprobs: 0 });
  t.match(strict.received.at(-1)?.body, { max_completion_tokens: 512 });
  for (const message of [
    { content: 'ok', reasoning_content: 'Hm.' },
    { content: 'ok', reasoning: 'Hm.' },
    { content: '<think>Hm.' },
  ]) {
    t.match((await probeOf(() => chatWith({ message }))).found, { reasoning: true });
  }
});

t.test('an endpoint that cannot be asked is asked once, and its key stays ours', async (t) => {
  const denied = await probeOf(() => refusal(`Incorrect API key provided: ${KEY}`, 401));
  t.equal(denied.requests, 1);
  t.match(denied.error, { code: 'upstream_status', message: /401.*\[redacted\]/ });
  t.notMatch(denied.error?.message, KEY);
  const gone = await probeOf(vllm, { baseUrl: 'http://127.0.0.1:1/v1' });
  t.match(gone, { requests: 1, findings: [], error: { code: 'upstream_unreachable' } });
  let count = 0;
  const flaky = await probeOf((request) => (count++ === 4 ? { status: 200, steps: ['{'] } : vllm(request)));
  t.equal(flaky.error, undefined, 'a later question that fails takes nothing from the others');
  t.match(flaky.found, { choice: 'structured_outputs', tools: true });
});

t.end();
