/** Another model stands in for one that fails, and the record says whose answer it was. */
import t, { type Test } from 'tap';
import { checkDocument } from '../../src/config/check.ts';
import { known } from '../../src/cli/known.ts';
import { TASK } from '../support/cast.ts';
import { send, startGateway } from '../support/gateway.ts';
import { chunk, either, json, RESET, startUpstream, stream, type MockUpstream } from '../support/upstream.ts';

async function siteOf(t: Test, more: object = {}) {
  const [ada, bob, spare, last] = await Promise.all(Array.from({ length: 4 }, () => startUpstream()));
  const ups = { ada, bob, spare, last } as Record<'ada' | 'bob' | 'spare' | 'last', MockUpstream>;
  t.teardown(() => Promise.all(Object.values(ups).map((one) => one.close())));
  for (const [name, one] of Object.entries(ups)) one.play(either(`It is ${name}, so 16.`));
  const model = (id: keyof typeof ups, fields: object = {}) => ({
    id,
    provider: 'openai-compatible',
    baseUrl: ups[id].url,
    model: `org/${id}`,
    retries: 0,
    price: { inputUsdPerMTok: 1, outputUsdPerMTok: 1 },
    ...fields,
  });
  const dear = { price: { inputUsdPerMTok: 100, outputUsdPerMTok: 100 } };
  const gateway = await startGateway(t, {
    models: [
      model('ada', { fallbacks: ['spare', 'last'], ...more }),
      model('bob'),
      model('spare', dear),
      model('last', { capabilities: { tools: false } }),
    ],
    pools: [{ id: 'team', members: ['ada', 'bob'] }],
    systems: [{ id: 'vote', pool: 'team', protocol: 'vote', options: { earlyExit: 0 } }],
  });
  const ask = async (name: string, fields: object = {}) => {
    const body = { model: name, messages: TASK.messages, ...fields };
    const answered = await send(`${gateway.url}/v1/chat/completions`, body);
    const id = answered.headers.get('x-consort-outcome');
    return { ...answered, outcome: id === null ? undefined : await gateway.outcome(id) };
  };
  return { ...ups, gateway, ask };
}

for (const isStream of [true, false]) {
  t.test(`a model that fails is stood in for, and counts as absent, streamed: ${isStream}`, async (t) => {
    const { ada, spare, gateway, ask } = await siteOf(t);
    t.match(await ask('ada', { stream: isStream }), { text: /It is|ada/, outcome: { answerFrom: ['ada'] } });
    t.equal(spare.received.length, 0);
    ada.play(json({}, 503));
    const { status, text, outcome } = await ask('ada', { stream: isStream });
    t.equal(status, 200);
    t.match(text, /spare/);
    t.match(outcome, {
      status: 'ok',
      answerFrom: ['spare'],
      intended: 1,
      realised: 0,
      absences: [{ member: 'ada', status: 'failed', code: 'upstream_status' }],
      calls: [{ member: 'ada', standIn: 'spare', status: 'ok', errorCode: 'upstream_status', attempts: 2 }],
    });
    const { inputTokens, outputTokens } = outcome!.usage;
    t.equal(outcome?.costMicros, 100 * (inputTokens + outputTokens), 'at the price of who answered');
    t.equal(spare.received[0]?.body['model'], 'org/spare');
    const metrics = await gateway.metrics();
    t.match(metrics, 'consort_fallbacks_total{model="ada",to="spare"} 1');
    t.match(metrics, 'consort_model_calls_total{model="ada",role="answer",outcome="failed"} 1');
    t.match(metrics, 'consort_model_calls_total{model="spare",role="answer",outcome="ok"} 1');
  });
}

t.test('they are asked in order, each once, and the first failure is told when all fail', async (t) => {
  const { ada, spare, last, ask } = await siteOf(t);
  ada.play(json({ error: { message: 'Ada is down' } }, 503));
  spare.play(json({}, 429));
  t.match((await ask('ada')).outcome, { answerFrom: ['last'] });
  last.play(json({}, 500));
  const { status, json: body, outcome } = await ask('ada');
  t.equal(status, 502);
  t.match(body.error.message, 'Ada is down');
  t.match(outcome, { status: 'failed', realised: 0, absences: [{ member: 'ada' }] });
  t.equal(outcome?.calls[0]?.standIn, undefined);
});

t.test('a member that is left alone is stood in for without being asked', async (t) => {
  const { ada, ask } = await siteOf(t, { breaker: { failures: 1 } });
  ada.play(json({}, 503));
  await ask('ada');
  t.match((await ask('ada')).outcome, { absences: [{ code: 'circuit_open' }], answerFrom: ['spare'] });
  t.equal(ada.received.length, 1);
});

t.test('in a team the stand-in speaks for the member, and the record tells them apart', async (t) => {
  const { ada, ask } = await siteOf(t);
  ada.play(json({}, 503));
  const { outcome } = await ask('consort/vote');
  t.match(outcome, { intended: 3, realised: 2, absences: [{ member: 'ada' }] });
  t.strictSame(outcome?.calls.map(({ member, standIn }) => [member, standIn]).toSorted(), [
    ['ada', 'spare'],
    ['bob', undefined],
  ]);
});

t.test('nobody stands in for a request at fault, a begun answer, or what only the member has', async (t) => {
  const { ada, spare, last, ask, gateway } = await siteOf(t, { breaker: { enabled: false } });
  ada.play(json({ error: { message: 'Too long' } }, 400));
  t.match(await ask('ada'), { status: 400 });
  ada.play(stream(chunk({ content: 'Six' }), { pauseMs: 20 }, RESET));
  t.match((await ask('ada', { stream: true })).text, 'upstream_truncated');
  ada.play(json({}, 503));
  t.match(await send(`${gateway.url}/v1/embeddings`, { model: 'ada', input: 'x' }), { status: 502 });
  t.equal(spare.received.length, 0);
  spare.play(json({}, 503));
  const tools = [{ type: 'function', function: { name: 'legs', parameters: { type: 'object' } } }];
  t.match(await ask('ada', { tools }), { status: 502 });
  t.equal(last.received.length, 0, 'it cannot call tools');
});

t.test('a measured run is of its coalition and of nobody else', async (t) => {
  const { ada, spare, ask } = await siteOf(t);
  ada.play(json({}, 503));
  const { outcome } = await ask('consort/vote', { consort: { design: 'full', seed: 1, gold: '16' } });
  t.match(outcome, { plan: { design: 'full' }, realised: 2 });
  t.equal(spare.received.length, 0);
});

t.test('who stands in must be there, be another one, and stay what it is', (t) => {
  const at = { provider: 'openai-compatible', baseUrl: 'http://a.example/v1' };
  const hosting = { replicas: ['http://a.example'], maxRank: 2 };
  const { problems } = checkDocument(
    {
      models: [
        { ...at, id: 'ada', fallbacks: ['ada', 'zoe', 'policy', 'bob'] },
        { ...at, id: 'policy', hosting },
        { ...at, id: 'bob' },
      ],
    },
    known,
  );
  t.strictSame(
    problems.map(({ path, message, remedy }) => [path, message, remedy]),
    [
      ['models.ada.fallbacks', 'ada cannot stand in for it', 'Use one of: bob.'],
      ['models.ada.fallbacks', 'there is no model zoe', 'Use one of: bob.'],
      ['models.ada.fallbacks', 'policy cannot stand in for it', 'Use one of: bob.'],
    ],
  );
  t.end();
});

t.end();
