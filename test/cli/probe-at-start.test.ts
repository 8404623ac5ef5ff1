/** `server.probeAtStart`: what endpoints are found to be able to do counts as if the configuration said so. */
import t, { type Test } from 'tap';
import { send } from '../support/gateway.ts';
import { Site } from '../support/serve.ts';
import { either, json, startUpstream, type Received } from '../support/upstream.ts';

const upstream = await startUpstream();
t.teardown(() => upstream.close());
/** It tells log-probabilities where it is asked for them, and goes on with nothing. */
const answering = (request: Received) => {
  const { body } = request;
  if (body['logprobs'] !== true) return either('yes')(request);
  const tops = Array.from({ length: Number(body['top_logprobs'] ?? 1) }, (_, index) => ({
    token: `t${index}`,
    logprob: -index,
  }));
  const content = [{ token: 't0', logprob: 0, top_logprobs: tops }];
  const choice = { index: 0, message: { role: 'assistant', content: 'yes' }, finish_reason: 'stop' };
  return json({
    choices: [{ ...choice, logprobs: { content } }],
    usage: { prompt_tokens: 1, completion_tokens: 1 },
  });
};

const configOf = (probeAtStart: boolean, capabilities?: object) => ({
  server: { port: 0, adminPort: 0, probeAtStart },
  models: ['ada', 'bob'].map((id) => ({
    id,
    provider: 'openai-compatible',
    baseUrl: upstream.url,
    retries: 0,
    ...(capabilities && { capabilities }),
  })),
  pools: [{ id: 'team', members: ['ada', 'bob'] }],
  systems: [{ id: 'nudge', pool: 'team', protocol: 'nudge' }],
});

async function asked(t: Test, capabilities?: object) {
  upstream.play(answering);
  const site = new Site(configOf(true, capabilities));
  t.teardown(() => site.close());
  const { url } = await site.serve();
  const messages = [{ role: 'user', content: 'Say it.' }];
  return send(`${url}/v1/chat/completions`, { model: 'consort/nudge', messages });
}

t.test('without it, a protocol that needs what nobody states is refused by the configuration', async (t) => {
  const site = new Site(configOf(false));
  t.teardown(() => site.close());
  const { code, stdout, stderr } = await site.run('check').ended;
  t.equal(code, 1);
  t.match(`${stdout}${stderr}`, 'needs continuation');
});

t.test('with it, the endpoints are asked, and what they have not is refused by request', async (t) => {
  const before = upstream.received.length;
  const { status, json: body } = await asked(t);
  t.ok(upstream.received.length > before + 4, 'both were asked');
  t.equal(status, 400);
  t.match(body.error, { code: 'capability_missing' });
  t.match(body.error.message, 'needs continuation, and model ada');
});

t.test('what the configuration states comes before what was found', async (t) => {
  const { json: body } = await asked(t, { continuation: true, logprobs: 0 });
  t.match(body.error.message, 'needs logprobs, and model ada', 'it was found to tell some');
});
