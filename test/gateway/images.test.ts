/** Images in a request to a team, of which not all members can read them. */
import t from 'tap';
import { send, startGateway } from '../support/gateway.ts';
import { either, startUpstream } from '../support/upstream.ts';

const names = ['ada', 'bob', 'cyd'] as const;
const upstreams = { ada: await startUpstream(), bob: await startUpstream(), cyd: await startUpstream() };
t.teardown(() => Promise.all(Object.values(upstreams).map((one) => one.close())));

const gateway = await startGateway(t, {
  server: { port: 0 },
  models: names.map((id) => ({
    id,
    provider: 'openai-compatible',
    baseUrl: upstreams[id].url,
    retries: 0,
    capabilities: { ada: { images: false }, bob: { images: true }, cyd: {} }[id],
  })),
  pools: [{ id: 'team', members: names }],
  systems: ['single', 'fuse', 'vote'].map((protocol) => ({ id: protocol, pool: 'team', protocol })),
});
const CHAT = `${gateway.url}/v1/chat/completions`;
const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } };
const history = [
  { role: 'system', content: 'Be brief.' },
  { role: 'user', content: [{ type: 'text', text: 'What is this?' }, image] },
  { role: 'assistant', content: 'Two spiders.' },
  { role: 'user', content: 'How many legs have they?' },
];
const ask = (model: string, messages: readonly unknown[], more: object = {}) =>
  send(CHAT, { model, messages, ...more });

t.beforeEach(() => {
  for (const one of Object.values(upstreams)) one.play(either('The final answer is 16.'));
});

t.test('a member that cannot read an image is absent, the others are sent it as it came', async (t) => {
  for (const [system, speaker] of [
    ['single', 'answer/bob'],
    ['fuse', 'fuse/bob'],
    ['vote', undefined],
  ] as const) {
    for (const one of Object.values(upstreams)) one.play(either('The final answer is 16.'));
    const { json: body, headers } = await ask(`consort/${system}`, history);
    t.equal(body.choices[0].message.content, 'The final answer is 16.');
    t.equal(upstreams.ada.received.length, 0, 'it is not asked');
    const sent = upstreams.bob.received[0]?.body['messages'];
    t.strictSame(sent, history);
    const outcome = await gateway.outcome(headers.get('x-consort-outcome'));
    t.match(outcome.absences, [{ member: 'ada', status: 'refused', code: 'images_unread' }]);
    t.equal(outcome.realised % 2, 0);
    const refused = outcome.calls.filter(({ errorCode }) => errorCode === 'images_unread');
    t.ok(refused.length > 0);
    t.ok(refused.every(({ attempts, costMicros }) => attempts === 0 && costMicros === 0));
    if (speaker) t.ok(outcome.calls.some(({ slot, status }) => slot === speaker && status === 'ok'));
  }
});

t.test('it is asked where there is no image', async (t) => {
  const text = [{ role: 'user', content: [{ type: 'text', text: 'How many legs have two spiders?' }] }];
  await ask('consort/single', text);
  t.strictSame(upstreams.ada.received[0]?.body['messages'], text);
});

t.test('when nobody can read it, the error says so', async (t) => {
  const more = { consort: { coalition: ['ada'] } };
  const { status, json: body } = await ask('consort/vote', history, more);
  t.equal(status, 400);
  t.match(body.error, { code: 'images_unread', message: /Model ada does not read images/ });
});

t.test('a plain model is sent whatever the client sends', async (t) => {
  const { status } = await ask('ada', history);
  t.equal(status, 200);
  t.strictSame(upstreams.ada.received[0]?.body['messages'], history);
});

t.end();
