import { createHash } from 'node:crypto';
import t from 'tap';
import { openForEvaluation, runEvaluation } from '../../src/cli/evaluation.ts';
import { known } from '../../src/cli/known.ts';
import { catalogOf } from '../../src/cli/system.ts';
import { checkDocument } from '../../src/config/check.ts';
import { dataOf, send, startGateway } from '../support/gateway.ts';
import { either, json, startUpstream } from '../support/upstream.ts';

const upstreams = {
  ada: await startUpstream(),
  bob: await startUpstream(),
  cyd: await startUpstream(),
  both: await startUpstream(),
};
t.teardown(() => Promise.all(Object.values(upstreams).map((one) => one.close())));
for (const [name, one] of Object.entries(upstreams)) one.play(either(`I am ${name}.`));

const model = (id: string, url: string, more: object = {}) => ({
  id,
  provider: 'openai-compatible',
  baseUrl: url,
  retries: 0,
  ...more,
});

const parent = (id: string) => {
  const [at, base] = [`weights/${id}`, 'weights/base'];
  const weights = { at, base, architecture: 'LlamaForCausalLM', adapter: false };
  const name = createHash('sha256')
    .update(JSON.stringify([at, base, false, '']))
    .digest('hex')
    .slice(0, 12);
  return { weights, name: `${id}@${name}` };
};

/** As `consort merge` writes it. */
const merged = (method: string, parents: readonly string[], more: object = {}) => ({
  revision: `${method} of ${parents.map((id) => parent(id).name).join(' + ')}`,
  merged: { parents, method },
  ...more,
});

function documentOf(more: object = {}, both: object = {}) {
  const weights = (id: string) => ({ weights: parent(id).weights });
  return {
    server: { port: 0, adminPort: 0, inlinePlans: true },
    models: [
      model('ada', upstreams.ada.url, weights('ada')),
      model('bob', upstreams.bob.url, weights('bob')),
      model('cyd', upstreams.cyd.url, weights('cyd')),
      model('bob.ada', upstreams.both.url, {
        ...merged('ties', ['bob', 'ada']),
        price: { inputUsdPerMTok: 3, outputUsdPerMTok: 5 },
        ...both,
      }),
      model('ada.cyd', upstreams.both.url, merged('linear', ['ada', 'cyd'])),
    ],
    pools: [
      { id: 'pair', members: ['ada', 'bob'], merged: 'ties' },
      { id: 'three', members: ['ada', 'bob', 'cyd'], merged: 'ties' },
      { id: 'apart', members: ['ada', 'bob'] },
    ],
    systems: [
      { id: 'pair', pool: 'pair', protocol: 'single' },
      { id: 'vote', pool: 'pair', protocol: 'vote', options: { earlyExit: 0 } },
      { id: 'three', pool: 'three', protocol: 'single' },
      { id: 'once', pool: 'pair', protocol: 'vote', budget: { calls: 1 } },
      { id: 'apart', pool: 'apart', protocol: 'single' },
    ],
    ...more,
  };
}

const messages = [{ role: 'user', content: 'Who are you?' }];
const gateway = await startGateway(t, documentOf());
const ask = (body: object, to = gateway) =>
  send(`${to.url}/v1/chat/completions`, { model: 'consort/pair', messages, ...body });

t.test('a coalition runs as one call of the model that was merged from it', async (t) => {
  const { json: body } = await ask({ consort: { trace: true } });
  t.equal(body.choices[0].message.content, 'I am both.');
  t.match(body.consort.trace, { members: ['ada', 'bob'], merged: 'bob.ada' });
  const outcome = gateway.outcomes.at(-1)!;
  t.match(outcome, { intended: 3, realised: 3, absences: [], answerFrom: ['bob.ada'], status: 'ok' });
  t.equal(outcome.calls.length, 1);
  t.strictSame(outcome.calls[0]?.revision, outcome.plan.merged?.revision);
  t.equal(outcome.costMicros, 7 * 3 + 2 * 5, 'at the price of the merged model');
});

t.test('it streams, whatever the protocol of the system', async (t) => {
  for (const name of ['pair', 'vote']) {
    const { text } = await ask({ model: `consort/${name}`, stream: true });
    const said = dataOf(text)
      .filter((data) => data !== '[DONE]')
      .map((data) => JSON.parse(data).choices[0]?.delta.content ?? '');
    t.equal(said.join(''), 'I am both.');
    t.equal(gateway.outcomes.at(-1)?.calls.length, 1);
  }
});

t.test('a coalition of one is its member, called as it is', async (t) => {
  for (const [bit, name] of ['ada', 'bob'].entries()) {
    const { json: body } = await ask({ consort: { coalition: [name] } });
    t.equal(body.choices[0].message.content, `I am ${name}.`);
    const outcome = gateway.outcomes.at(-1)!;
    t.match(outcome, { intended: 2 ** bit, realised: 2 ** bit });
    t.notOk(outcome.plan.merged);
  }
});

t.test('a coalition without a model of its own is refused with what to run', async (t) => {
  const runs = gateway.outcomes.length;
  for (const [coalition, names] of [
    [undefined, 'ada,bob,cyd'],
    [['cyd', 'ada'], 'ada,cyd'],
  ] as const) {
    const { status, json: body } = await ask({
      model: 'consort/three',
      ...(coalition && { consort: { coalition } }),
    });
    t.equal(status, 409);
    t.match(body.error, { code: 'coalition_unmerged', param: 'consort.coalition' });
    t.match(body.error.message, `consort merge --coalition ${names} --method ties`);
  }
  t.equal(gateway.outcomes.length, runs, 'and nothing is run in its place');
  const { json: part } = await ask({ model: 'consort/three', consort: { coalition: ['bob', 'ada'] } });
  t.equal(part.choices[0].message.content, 'I am both.');
  t.match(gateway.outcomes.at(-1), { intended: 3, realised: 3 });
});

t.test('when the merged model fails, nobody of the coalition was there', async (t) => {
  upstreams.both.play(json({ error: { message: 'broken' } }, 500));
  t.teardown(() => upstreams.both.play(either('I am both.')));
  const { status } = await ask({});
  t.equal(status, 502);
  t.match(gateway.outcomes.at(-1), {
    status: 'failed',
    intended: 3,
    realised: 0,
    absences: [
      { member: 'ada', code: 'upstream_status' },
      { member: 'bob', code: 'upstream_status' },
    ],
  });
});

t.test('other pools of the same models go on as they were', async (t) => {
  const { json: body } = await ask({ model: 'consort/apart' });
  t.equal(body.choices[0].message.content, 'I am ada.');
  t.notOk(gateway.outcomes.at(-1)?.plan.merged);
  const { json: inline } = await ask({ model: 'consort/single:ada+bob' });
  t.equal(inline.choices[0].message.content, 'I am ada.');
});

t.test('a budget counts the calls of the one model, not those of its parents', async (t) => {
  const { status } = await ask({ model: 'consort/once' });
  t.equal(status, 200, 'a vote of two would be two calls');
  const options = { samples: 2 };
  const { json: body } = await ask({ model: 'consort/once', consort: { options } });
  t.equal(body.error.code, 'budget_too_small');
  t.match(body.error.message, 'up to 2');
});

t.test('a key for the system is none for the merged model itself, nor the other way', async (t) => {
  const hashed = (key: string) => createHash('sha256').update(key).digest('hex');
  const keys = [
    { name: 'team', sha256: hashed('team'), models: ['consort/pair'] },
    { name: 'lone', sha256: hashed('lone'), models: ['bob.ada', 'consort/vote:*', 'ada'] },
  ];
  const guarded = await startGateway(t, documentOf({ auth: { required: true, keys } }));
  const status = async (key: string, name: string) =>
    (await send(`${guarded.url}/v1/chat/completions`, { model: name, messages }, { key })).status;
  t.equal(await status('team', 'consort/pair'), 200);
  t.equal(await status('team', 'bob.ada'), 403);
  t.equal(await status('lone', 'bob.ada'), 200);
  t.equal(await status('lone', 'consort/pair'), 403);
  t.equal(await status('lone', 'consort/vote:ada+bob.ada'), 200, 'it is a member like others');
});

t.test('the pool says what its coalitions run as', async (t) => {
  const { json: body } = await send(`${gateway.url}/v1/models/consort/vote`);
  t.match(body.description, 'merged by ties');
  t.strictSame(body.consort.shape, { calls: 1, path: 1, widest: 1 });
});

t.test('a merged model is part of the revision of its pool, and of the flag for simulations', (t) => {
  const systemOf = (document: object) => {
    const { config, problems } = checkDocument(document, known);
    if (!config) throw new TypeError(JSON.stringify(problems));
    return catalogOf(config).systems.get('consort/pair')!;
  };
  const before = systemOf(documentOf());
  const again = systemOf(
    documentOf({}, { revision: `${merged('ties', ['bob', 'ada']).revision}, second try` }),
  );
  t.not(again.pool.revision, before.pool.revision);
  t.equal(again.protocolRevision, before.protocolRevision);
  t.notOk(before.simulated);
  const document = documentOf();
  const simulated = { ...document.models[3]!, provider: 'sim' };
  t.ok(systemOf({ ...document, models: document.models.with(3, simulated) }).simulated);
  t.end();
});

t.test('Shapley values of merged weights come from the coalitions’ own models', async (t) => {
  const { config } = checkDocument(documentOf(), known);
  const running = openForEvaluation(config!, undefined);
  t.teardown(() => running.close());
  const directory = t.testdir();
  const evaluate = (id: string, masks: number[], gold: string) =>
    runEvaluation(
      running,
      {
        system: running.catalog.systems.get(`consort/${id}`)!,
        tasks: 'who',
        rows: [{ id: 'who', prompt: 'Who are you?', gold, verifier: 'exact-match' }],
        design: 'full',
        masks,
        seed: 1,
        concurrency: 1,
      },
      { directory, signal: new AbortController().signal, onProgress: () => undefined },
    );
  const { results, report } = await evaluate('pair', [1, 2, 3], 'I am both.');
  t.match(results[0], { rewards: { 1: 0, 2: 0, 3: 1 }, calls: 3 });
  const shapley = report?.estimates.filter(({ metric }) => metric === 'shapley');
  t.strictSame(
    shapley?.map(({ subject, value }) => [subject, value]),
    [
      ['ada', 0.5],
      ['bob', 0.5],
    ],
  );

  const counts = () => Object.values(upstreams).map(({ received }) => received.length);
  const before = counts();
  await t.rejects(evaluate('three', [1, 2, 3, 4, 5, 6, 7], 'x'), { code: 'coalition_unmerged' });
  t.strictSame(counts(), before, 'found before the first call');
});
