/** `consort fit`, from the command to a gateway that runs what it wrote. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { send } from '../support/gateway.ts';
import { Site } from '../support/serve.ts';
import { either, startUpstream, type Received } from '../support/upstream.ts';

const upstreams = { ada: await startUpstream(), bob: await startUpstream() };
t.teardown(() => Promise.all(Object.values(upstreams).map((one) => one.close())));
/** ada can add, bob reverse; each says 0 to the other's. */
const knows = (verb: string) => (request: Received) =>
  either(`The answer is ${JSON.stringify(request.body['messages']).includes(verb) ? '7' : '0'}.`)(request);
upstreams.ada.play(knows('Add'));
upstreams.bob.play(knows('Reverse'));

const configOf = (more: object = {}) => ({
  server: { port: 0, adminPort: 0 },
  models: (['ada', 'bob'] as const).map((id) => ({
    id,
    provider: 'openai-compatible',
    baseUrl: upstreams[id].url,
    retries: 0,
  })),
  pools: [{ id: 'team', members: ['ada', 'bob'] }],
  systems: [
    { id: 'router', pool: 'team', protocol: 'trained-route', ...more },
    { id: 'vote', pool: 'team', protocol: 'vote' },
  ],
});
const rows = Array.from({ length: 48 }, (_, index) => ({
  id: `q${index}`,
  prompt: `${index % 2 === 0 ? 'Add' : 'Reverse'} item ${index}.`,
  gold: '7',
  verifier: 'exact-match',
}));

const site = new Site(configOf());
t.teardown(() => site.close());
writeFileSync(join(site.directory, 'tasks.jsonl'), rows.map((row) => JSON.stringify(row)).join('\n'));
const fit = (...args: string[]) => site.run('fit', '--data', 'tasks.jsonl', ...args).ended;

t.test('it fits, measures on the other half, and writes a file that a configuration can name', async (t) => {
  const { code, stdout } = await fit('--system', 'router', '--out', 'router.json');
  t.equal(code, 0);
  t.match(stdout, /router \(trained-route\): computed from what members said alone, on 24 prompts/);
  t.match(stdout, /fitted\s+1\.000 .* n 24, wilson/);
  t.match(stdout, /fitted − as configured\s+0\.\d+/);
  t.match(stdout, /fitted − (ada|bob) alone\s+0\.\d+/);
  const written = JSON.parse(readFileSync(join(site.directory, 'router.json'), 'utf8'));
  t.match(written, {
    protocol: 'trained-route',
    system: 'router',
    seed: 0,
    n: { prompts: 24 },
    measured: { first: { value: 1, n: 24 }, second: { n: 24 } },
    against: { measured: { first: { value: 1 } } },
    options: { heads: { ada: { weights: Array }, bob: { bias: Number } } },
  });
  // In each half are both kinds, by a draw: about half of the tasks are for each member.
  t.ok(written.measured.second.value < 0.8);
  t.strictSame(Object.keys(written.options), ['heads'], 'what was not fitted is not in it');

  const fitted = new Site(configOf({ optionsFile: 'router.json' }));
  t.teardown(() => fitted.close());
  writeFileSync(join(fitted.directory, 'router.json'), JSON.stringify(written));
  const { url } = await fitted.serve();
  for (const [prompt, alias] of [
    ['Add item 99.', 'ada'],
    ['Reverse item 99.', 'bob'],
  ] as const) {
    const before = upstreams[alias].received.length;
    const messages = [{ role: 'user', content: prompt }];
    const { json } = await send(`${url}/v1/chat/completions`, { model: 'consort/router', messages });
    t.equal(json.choices[0].message.content, 'The answer is 7.');
    t.equal(upstreams[alias].received.length, before + 1);
  }
});

t.test('what cannot be fitted, or to too little, is said', async (t) => {
  const vote = await fit('--system', 'vote');
  t.equal(vote.code, 2);
  t.match(vote.stderr, 'protocol vote of vote has no options that can be fitted');
  const few = await fit('--system', 'router', '--limit', '12');
  t.equal(few.code, 2);
  t.match(few.stderr, 'needs tasks of 20 clusters or more, half of them to measure; there are 12');
});

t.test('a file that is not there, or of another protocol, is refused by the configuration', async (t) => {
  for (const [text, wrong] of [
    [undefined, 'router.json cannot be read'],
    ['{"options": 1}', 'is not what `consort fit` writes'],
    [JSON.stringify({ protocol: 'mux', options: {} }), 'was fitted for protocol mux'],
  ] as const) {
    const other = new Site(configOf({ optionsFile: 'router.json' }));
    t.teardown(() => other.close());
    if (text !== undefined) writeFileSync(join(other.directory, 'router.json'), text);
    const { code, stderr, stdout } = await other.run('check').ended;
    t.equal(code, 1);
    t.match(`${stderr}${stdout}`, 'systems.router.optionsFile');
    t.match(`${stderr}${stdout}`, wrong);
  }
});
