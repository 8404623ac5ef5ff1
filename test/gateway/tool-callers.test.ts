/** Who of a team may call the client's tools: `systems[].tools`, and what is known of the members. */
import t from 'tap';
import { send, startGateway } from '../support/gateway.ts';
import { either, json, startUpstream } from '../support/upstream.ts';

const names = ['ada', 'bob', 'cyd'] as const;
const upstreams = { ada: await startUpstream(), bob: await startUpstream(), cyd: await startUpstream() };
t.teardown(() => Promise.all(Object.values(upstreams).map((one) => one.close())));

const models = names.map((id) => ({
  id,
  provider: 'openai-compatible',
  baseUrl: upstreams[id].url,
  retries: 0,
  description: id,
  ...(id === 'cyd' && { capabilities: { tools: false } }),
}));
const system = (id: string, protocol: string, more: object) => ({ id, pool: 'team', protocol, ...more });
const gateway = await startGateway(t, {
  server: { port: 0 },
  models,
  pools: [
    { id: 'team', members: names },
    { id: 'deaf', members: ['cyd'] },
  ],
  systems: [
    ...['fuse', 'single', 'structured', 'knowledge-card', 'route'].map((protocol) =>
      system(protocol, protocol, { tools: ['bob'] }),
    ),
    system('any', 'fuse', { options: { fusers: ['cyd', 'ada'] } }),
    system('none', 'fuse', { tools: [] }),
    { id: 'deaf', pool: 'deaf', protocol: 'single' },
  ],
});

const tools = [{ type: 'function', function: { name: 'legs', parameters: { type: 'object' } } }];
const chat = (id: string, more: object = {}) =>
  send(`${gateway.url}/v1/chat/completions`, {
    model: `consort/${id}`,
    messages: [{ role: 'user', content: 'How many legs?' }],
    ...more,
  });
const offered = () =>
  names.filter((name) => upstreams[name].received.some(({ body }) => body['tools'] !== undefined));

t.beforeEach(() => {
  for (const [name, one] of Object.entries(upstreams)) one.play(either(`I am ${name}: 16.`));
});

for (const id of ['fuse', 'single', 'structured', 'knowledge-card', 'route']) {
  t.test(`${id}: who may call tools speaks where there are any, and else whoever has the role`, async (t) => {
    const withTools = await chat(id, { tools });
    t.match(withTools.json.choices[0].message.content, 'I am bob');
    t.strictSame(offered(), ['bob']);
    if (id === 'route') return;
    t.match((await chat(id)).json.choices[0].message.content, 'I am ada');
  });
}

t.test('a member that is known to call no tools speaks only when nobody else can', async (t) => {
  t.match((await chat('any', { tools })).json.choices[0].message.content, 'I am ada');
  t.match((await chat('any')).json.choices[0].message.content, 'I am cyd');
  upstreams.ada.play(json({ error: { message: 'no' } }, 400));
  upstreams.bob.play(json({ error: { message: 'no' } }, 400));
  t.match((await chat('any', { tools })).json.choices[0].message.content, 'I am cyd');
  t.notOk(offered().includes('cyd'));
});

t.test('tools are refused where nobody may call them', async (t) => {
  for (const id of ['none', 'deaf']) {
    const refused = await chat(id, { tools });
    t.equal(refused.status, 400);
    t.match(refused.json.error, { code: 'not_supported', param: 'tools' });
    t.match(refused.json.error.message, 'cyd');
    t.equal((await chat(id)).status, 200, 'and without tools it answers');
  }
});

t.test('the list of models says whether a system takes tools', async (t) => {
  const { json: list } = await send(`${gateway.url}/v1/models`);
  const takes = (id: string) => list.data.find((one: { id: string }) => one.id === id).consort.tools;
  t.strictSame(['consort/fuse', 'consort/none', 'consort/deaf', 'ada'].map(takes), [
    true,
    false,
    false,
    true,
  ]);
});

t.test('an alias that is not in the pool is refused by the configuration', async (t) => {
  const start = startGateway(t, {
    server: { port: 0 },
    models,
    pools: [{ id: 'team', members: ['ada', 'bob'] }],
    systems: [system('fuse', 'fuse', { tools: ['cyd'] })],
  });
  await t.rejects(start, /there is no tools cyd/);
});
