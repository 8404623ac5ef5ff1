import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import t, { type Test } from 'tap';
import { stringify } from 'yaml';
import { checkDocument } from '../../src/config/check.ts';
import { discover } from '../../src/config/discover.ts';
import { readConfig } from '../../src/config/load.ts';
import { problemError, type Problem } from '../../src/config/problem.ts';
import type { Environment } from '../../src/config/secrets.ts';
import { known } from '../../src/cli/known.ts';
import type { Config } from '../../src/contract/config.ts';
import { makeCatalog } from '../../src/gateway/catalog.ts';
import { protocols } from '../../src/gateway/protocols/index.ts';
import { single } from '../../src/gateway/protocols/single.ts';

const directory = mkdtempSync(join(tmpdir(), 'consort-config-'));
t.teardown(() => rmSync(directory, { recursive: true, force: true }));
const FILE = join(directory, 'consort.yaml');
const SECRET = 'sk-canary-5f2c';

function read(content: unknown, environment: Environment = {}) {
  writeFileSync(FILE, typeof content === 'string' ? content : stringify(content));
  return readConfig(FILE, environment, known);
}

const model = (more: object = {}) => ({
  id: 'ada',
  provider: 'openai-compatible',
  baseUrl: 'http://h/v1',
  ...more,
});
const team = (more: object = {}, system: object = {}) => ({
  models: [model(), model({ id: 'bob' })],
  pools: [{ id: 'pair', members: ['ada', 'bob'] }],
  systems: [{ id: 'talk', pool: 'pair', protocol: 'vote', ...system }],
  ...more,
});

t.test('every kind of problem names its place, what stands there and a remedy', (t) => {
  const cases: [string, unknown, string, RegExp, RegExp][] = [
    ['a scalar', '5', 'the document', /object.*5/, /reference\/config/],
    ['a list', '[]', 'the document', /object.*a list/, /reference/],
    ['an unknown section', { serverr: {} }, 'serverr', /not a known field/, /spelling/],
    ['an unknown field', { server: { prot: 1 } }, 'server.prot', /not a known field/, /spelling/],
    ['a wrong type', { server: { port: 'high' } }, 'server.port', /integer.*"high"/, /reference/],
    ['out of range', { server: { port: 70_000 } }, 'server.port', /65535.*70000/, /reference/],
    ['no number', 'server: { port: .nan }', 'server.port', /integer/, /reference/],
    [
      'a wrong word',
      team({}, { overrides: ['everything'] }),
      'systems.talk.overrides.0',
      /"everything"/,
      /reference/,
    ],
    ['a missing field', { models: [{ id: 'ada' }] }, 'models.ada', /provider.*an object/, /reference/],
    [
      'a wrong provider',
      { models: [model({ provider: 'oracle' })] },
      'models.ada.provider',
      /"oracle"/,
      /reference/,
    ],
    [
      'a wrong id',
      { models: [model({ id: 'Big Model' })] },
      'models.Big Model.id',
      /pattern.*"Big Model"/,
      /reference/,
    ],
    ['an id that is no text', { models: [model({ id: 5 })] }, 'models.0.id', /string.*5/, /reference/],
    [
      'a field with a slash',
      { models: [model({ 'a/b~c': 5 })] },
      'models.ada.a/b~c',
      /not a known/,
      /spelling/,
    ],
    ['no address', { models: [model({ baseUrl: undefined })] }, 'models.ada.baseUrl', /missing/, /\/v1/],
    [
      'no such address',
      { models: [model({ baseUrl: 'http://' })] },
      'models.ada.baseUrl',
      /not an address/,
      /\/v1/,
    ],
    [
      'another scheme',
      { models: [model({ baseUrl: 'ftp://h' })] },
      'models.ada.baseUrl',
      /pattern/,
      /reference/,
    ],
    ['a model twice', { models: [model(), model()] }, 'models.ada', /used twice/, /own id/],
    [
      'a router that would read nothing',
      team({}, { protocol: 'route' }),
      'systems.talk.pool',
      /route.*no model of pool pair/,
      /models\[\]\.description/,
    ],
    [
      'a pool twice',
      team({
        pools: [
          { id: 'pair', members: ['ada'] },
          { id: 'pair', members: ['bob'] },
        ],
      }),
      'pools.pair',
      /twice/,
      /own id/,
    ],
    [
      'a member twice',
      team({ pools: [{ id: 'pair', members: ['ada', 'ada'] }] }),
      'pools.pair.members',
      /must not have duplicate/,
      /reference/,
    ],
    [
      'an empty pool',
      team({ pools: [{ id: 'pair', members: [] }] }),
      'pools.pair.members',
      /a list/,
      /reference/,
    ],
    [
      'no such member',
      team({ pools: [{ id: 'pair', members: ['ada', 'zoe'] }] }),
      'pools.pair.members',
      /no model zoe/,
      /ada, bob/,
    ],
    [
      'an option that names nobody',
      team({}, { protocol: 'cascade', options: { thresholds: { adda: 0.7 } } }),
      'systems.talk.options',
      /thresholds\/adda.*"adda" is no member of the pool, which has ada, bob/,
      /docs\/protocols/,
    ],
    ['no such pool', team({}, { pool: 'trio' }), 'systems.talk.pool', /no pool trio/, /pair/],
    [
      'no such protocol',
      team({}, { protocol: 'brawl' }),
      'systems.talk.protocol',
      /no protocol brawl/,
      /single, vote, debate, fuse/,
    ],
    [
      'no such verifier',
      team({}, { reward: { verifier: 'oracle' } }),
      'systems.talk.reward.verifier',
      /no verifier oracle/,
      /exact-match/,
    ],
    [
      'no such option',
      team({}, { options: { loud: true } }),
      'systems.talk.options',
      /loud.*samples, ties/s,
      /protocols\.md/,
    ],
    [
      'a wrong option',
      team({}, { options: { samples: 0 } }),
      'systems.talk.options',
      /samples.*vote.*0/,
      /protocols\.md/,
    ],
    ['no key for a lock', { auth: { required: true } }, 'auth.keys', /empty/, /consort keys new/],
    [
      'a key instead of its hash',
      { auth: { keys: [{ name: 'app', sha256: 'abc' }] } },
      'auth.keys.app.sha256',
      /pattern/,
      /reference/,
    ],
    ['no such store', { store: { url: 'mysql://h' } }, 'store.url', /pattern.*not shown/, /reference/],
    [
      'no such variable',
      { models: [model({ apiKey: '${NOT_SET}' })] },
      'models.ada.apiKey',
      /NOT_SET is not set/,
      /Set NOT_SET/,
    ],
    [
      'no such file',
      { models: [model({ apiKey: 'file:/nowhere/key' })] },
      'models.ada.apiKey',
      /\/nowhere\/key.*ENOENT/,
      /path/,
    ],
    [
      'a secret written out where it fits no pattern, told once',
      { store: { url: `redis://:${SECRET}@host` } },
      'store.url',
      /written out/,
      /file:/,
    ],
    [
      'a word that is none of a list',
      { models: [model({ provider: 'ollama' })] },
      'models.ada.provider',
      /must be one of openai-compatible, sim, found "ollama"/,
      /config\.md/,
    ],
    [
      'a secret written out',
      { models: [model({ apiKey: SECRET })] },
      'models.ada.apiKey',
      /written out/,
      /\$\{ENV_NAME\}/,
    ],
  ];
  for (const [name, content, path, message, remedy] of cases) {
    const { config, problems } = read(content);
    t.equal(config, undefined, name);
    t.equal(problems.length, 1, `${name}: one problem, told once: ${JSON.stringify(problems)}`);
    t.match(problems[0], { path, message, remedy }, name);
  }
  t.end();
});

t.test('all problems are told at once, and as one error with a count', (t) => {
  const { problems } = read({ server: { port: 'x' }, store: { retentionDays: 0 }, modls: [] });
  t.strictSame(problems.map(({ path }) => path).toSorted(), ['modls', 'server.port', 'store.retentionDays']);
  const error = problemError(problems);
  t.match(error, {
    code: 'config_invalid',
    param: problems[0]?.path,
    message: /\(and 2 more; `consort check` lists them\)/,
  });
  t.equal(error.remedy, problems[0]?.remedy);
  const [one] = problems;
  t.notMatch(problemError([one as Problem]).message, 'more');
  t.end();
});

t.test('what is no YAML is said with its line, without quoting the file', (t) => {
  for (const [text, message] of [
    [`models:\n  - apiKey: ${SECRET}\n bad`, /line 3/],
    ['server: { port: 1, port: 2 }', /unique/],
    ['server: *nobody', /nobody/],
    [
      'a: &a [x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: [*c,*c,*c,*c,*c,*c,*c,*c,*c]',
      /alias/i,
    ],
    ['one: 1\n---\ntwo: 2', /document/],
  ] as const) {
    const { config, problems } = read(text);
    t.equal(config, undefined);
    t.match(problems[0], { path: FILE, message, remedy: 'Correct the YAML.' });
    t.notMatch(JSON.stringify(problems), 'canary');
  }
  t.end();
});

t.test('a file that cannot be read is an error of its own', (t) => {
  const missing = join(directory, 'none.yaml');
  t.throws(() => readConfig(missing, {}, known), {
    code: 'config_unreadable',
    message: /none\.yaml.*ENOENT/,
  });
  t.throws(() => readConfig(directory, {}, known), { code: 'config_unreadable' });
  t.end();
});

t.test('a document without end or bound is refused, not followed', (t) => {
  for (const [yaml, message] of [
    ['models: &all [*all]', /inside its own anchor/],
    ['server: &one { logLevel: { deeper: *one } }', /inside its own anchor/],
    [`models: ${'['.repeat(20_000)}${']'.repeat(20_000)}`, /./],
  ] as const) {
    const { config, problems } = read(yaml);
    t.equal(config, undefined);
    t.match(problems, [{ path: FILE, message, remedy: 'Correct the YAML.' }]);
  }
  t.equal(read(stringify(team())).problems.length, 0);
  t.end();
});

t.test('secrets come from the environment or a file, and are shown by no problem', (t) => {
  const keyFile = join(directory, 'key');
  writeFileSync(keyFile, `${SECRET}\n`);
  const environment = { KEY: SECRET, HOST: 'example.org', REDIS_PASSWORD: SECRET };
  for (const apiKey of ['${KEY}', `file:${keyFile}`]) {
    const { config } = read(
      team({ models: [model({ apiKey }), model({ id: 'bob', baseUrl: 'https://${HOST}/v1' })] }),
      environment,
    );
    t.equal(config?.models[0]?.apiKey, SECRET);
    t.equal(config?.models[1]?.baseUrl, 'https://example.org/v1');
    const catalog = config && makeCatalog(config, protocols, single);
    t.notMatch(JSON.stringify([...(catalog?.systems.values() ?? [])]), 'canary', 'no plan will hold it');
  }
  const store = read({ store: { url: 'redis://:${REDIS_PASSWORD}@${HOST}:6379' } }, environment);
  t.equal(store.config?.store.url, `redis://:${SECRET}@example.org:6379`);
  t.equal(read({ store: { url: 'rediss://h:6379/0' } }).problems.length, 0);
  for (const content of [
    { models: [model({ apiKey: SECRET })] },
    { models: [model({ apiKey: `Bearer \${KEY}${SECRET}` })] },
    { models: [model({ apiKey: `\${1${SECRET}}` })] },
    { models: [model({ apiKey: [SECRET] })] },
    { models: [model({ api_key: SECRET })] },
    { models: [model({ apiKey: { secret: SECRET } })] },
    { apiKey: SECRET },
    { systems: [{ id: 'x', apiKey: SECRET }] },
    { store: { url: `redis://:${SECRET}@h` } },
    { store: { url: `redis://user:${SECRET}@h` } },
    { models: [model({ baseUrl: `https://user:${SECRET}@h/v1` })] },
    { store: { url: `postgres://\${HOST}/${SECRET}` } },
    { models: [model({ baseUrl: '${KEY}' })] },
    { store: { url: '${KEY}' } },
    { models: [model({ provider: '${KEY}' })] },
    { server: { port: '${KEY}' } },
    team({ systems: [{ id: 'x', pool: '${KEY}', protocol: '${KEY}' }] }),
    { systems: [{ id: 'x', pool: 'p', protocol: 'vote', options: { ties: '${KEY}' } }] },
  ]) {
    const { config, problems } = read(content, environment);
    t.equal(config, undefined, JSON.stringify(content));
    t.ok(problems.length > 0);
    t.notMatch(JSON.stringify(problems), 'canary');
    t.notMatch(JSON.stringify(problemError(problems).toBody()), 'canary');
  }
  t.match(read({ models: [model({ apiKey: '${EMPTY}' })] }, { EMPTY: '' }).problems, [
    { message: /EMPTY is not set/ },
  ]);
  t.end();
});

t.test('an empty file is a configuration, and what is left out has its default', (t) => {
  for (const text of ['', '# nothing', '{}', 'server: {}', 'server:\n  host: 127.0.0.1']) {
    const { config, problems } = read(text);
    t.strictSame(problems, []);
    t.match(config, {
      server: { host: '127.0.0.1', port: 8080, adminPort: 9464, maxStreamSeconds: 540 },
      store: { url: 'sqlite:.consort/consort.db' },
      auth: { required: false, keys: [] },
      models: [],
    });
  }
  const { config } = read(team());
  t.match(config?.models[0], { retries: 2, timeouts: { totalMs: 600_000, partMs: 60_000 }, description: '' });
  t.match(config?.systems[0], {
    options: {},
    budget: { calls: 32, deadlineMs: 120_000 },
    overrides: ['coalition', 'options'],
  });
  const partly = read(team({}, { budget: { calls: 5 } }));
  t.strictSame(partly.config?.systems[0]?.budget, { calls: 5, deadlineMs: 120_000 });
  t.end();
});

t.test('what is checked is not changed', (t) => {
  const document = team();
  const before = structuredClone(document);
  const { config } = checkDocument(document, known);
  t.ok(config);
  t.strictSame(document, before);
  t.end();
});

const fieldNames = fc.constantFrom(
  'server',
  'store',
  'auth',
  'models',
  'pools',
  'systems',
  'id',
  'provider',
  'baseUrl',
  'apiKey',
  'members',
  'url',
  'port',
  'keys',
  'sha256',
  'name',
  'pool',
  'protocol',
  'options',
  'budget',
  'reward',
  '__proto__',
  'constructor',
);
const values = fc.letrec((tie) => ({
  any: fc.oneof(
    { depthSize: 'medium' },
    fc.constantFrom(
      'ada',
      'sim',
      'vote',
      'pair',
      'openai-compatible',
      'http://h/v1',
      '${X}',
      '${Y}',
      'file:/nowhere',
      '',
    ),
    fc.jsonValue({ maxDepth: 1 }),
    fc.double(),
    fc.array(tie('any'), { maxLength: 4 }),
    fc.dictionary(fieldNames, tie('any'), { maxKeys: 6 }),
  ),
})).any;

t.test('any document gives problems or a configuration, and never a crash', (t) => {
  const check = ({ config, problems }: { config?: Config; problems: readonly Problem[] }) => {
    if (config) return problems.length === 0;
    return problems.length > 0 && problems.every(({ path, message, remedy }) => path && message && remedy);
  };
  let configured = 0;
  fc.assert(
    fc.property(fc.dictionary(fieldNames, values, { maxKeys: 8 }), (document) => {
      const result = read(document, { X: '5' });
      if (result.config) configured++;
      return check(result);
    }),
    { numRuns: 600 },
  );
  t.ok(configured > 0, `${configured} of them are configurations`);
  const words = fc.constantFrom(
    'a',
    ':',
    ' ',
    '\n',
    '-',
    '[',
    ']',
    '{',
    '}',
    '&a',
    '*a',
    '!!',
    '"',
    "'",
    '|',
    '>',
    '#',
    '%',
    '\t',
    '<<',
    '? ',
    ',',
    '0',
  );
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string({ maxLength: 200 }),
        fc.array(words, { maxLength: 40 }).map((all) => all.join('')),
      ),
      (text) => check(read(text)),
    ),
    { numRuns: 1_500 },
  );
  t.end();
});

interface Listing {
  readonly url: string;
  readonly host: string;
  readonly asked: { path: string; key: string | undefined }[];
}

async function startListing(t: Test, respond: (response: ServerResponse) => void): Promise<Listing> {
  const asked: Listing['asked'] = [];
  const server = createServer((request, response) => {
    asked.push({ path: request.url ?? '', key: request.headers.authorization });
    respond(response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { url: `http://${host}/v1`, host, asked };
}

const listOf =
  (...ids: unknown[]) =>
  (response: ServerResponse) => {
    response.end(JSON.stringify({ object: 'list', data: ids.map((id) => ({ id, object: 'model' })) }));
  };

/** Nothing listens there: what runs on this machine must not decide. */
const NOWHERE = { OLLAMA_HOST: '127.0.0.1:9', VLLM_BASE_URL: 'http://127.0.0.1:9/v1' };

async function found(environment: Environment) {
  const { document, notice } = await discover({ ...NOWHERE, ...environment });
  const { config, problems } = checkDocument(document, known);
  return { config, problems, notice };
}

t.test('without a file, the models of the servers that answer make a team', async (t) => {
  const openai = await startListing(
    t,
    listOf('gpt-5-mini', 'text-embedding-3-small', 'whisper-1', 'GPT 6/Pro'),
  );
  const ollama = await startListing(t, listOf('llama3.2:1b'));
  const vllm = await startListing(t, listOf('Qwen/Qwen3-27B', '模型', 5, ''));
  const { config, problems, notice } = await found({
    OPENAI_API_KEY: SECRET,
    OPENAI_BASE_URL: `${openai.url}/`,
    OLLAMA_HOST: ollama.host,
    VLLM_BASE_URL: vllm.url,
  });
  t.strictSame(problems, []);
  t.match(
    config?.models.map(({ id, model, baseUrl, apiKey }) => [id, model, baseUrl, apiKey]),
    [
      ['gpt-5-mini', 'gpt-5-mini', openai.url, SECRET],
      ['gpt-6-pro', 'GPT 6/Pro', openai.url, SECRET],
      ['llama3.2-1b', 'llama3.2:1b', ollama.url, undefined],
      ['qwen-qwen3-27b', 'Qwen/Qwen3-27B', vllm.url, undefined],
    ],
  );
  t.strictSame(
    config?.pools.map(({ members }) => members.length),
    [4],
  );
  t.strictSame(
    config?.systems.map(({ id }) => id),
    ['vote', 'debate', 'fuse'],
  );
  t.match(notice, /openai \(2\), ollama \(1\), vllm/);
  t.notMatch(notice, 'canary');
  t.strictSame(openai.asked, [{ path: '/v1/models', key: `Bearer ${SECRET}` }]);
  t.strictSame(ollama.asked, [{ path: '/v1/models', key: undefined }], 'a key goes to its own server only');
});

t.test('a lone model is no team', async (t) => {
  const ollama = await startListing(t, listOf('llama3.2:1b'));
  const { config } = await found({ OLLAMA_HOST: `http://${ollama.host}/` });
  t.strictSame(
    config?.systems.map(({ id, protocol }) => [id, protocol]),
    [['single', 'single']],
  );
});

t.test('OLLAMA_HOST is read as Ollama reads it', async (t) => {
  const ollama = await startListing(t, listOf('m'));
  const port = ollama.host.split(':')[1];
  for (const host of [`0.0.0.0:${port}`, `:${port}`, `http://0.0.0.0:${port}`]) {
    const { config } = await found({ OLLAMA_HOST: host });
    t.equal(config?.models[0]?.baseUrl, ollama.url, host);
  }
});

t.test(
  'servers that do not list models in time are passed over, and the simulated pool says that it is one',
  async (t) => {
    const slow = await startListing(t, (response) => {
      response.write('{');
      const drip = setInterval(() => response.write(' '), 100);
      response.on('close', () => clearInterval(drip));
    });
    const huge = await startListing(t, (response) => {
      response.end(`{"data":[${'"x",'.repeat(600_000)}1]}`);
    });
    const broken = await startListing(t, (response) => response.end('<html>'));
    const cases: [Environment, RegExp][] = [
      [{}, /ollama and vllm listed no models/],
      [{ OPENAI_API_KEY: SECRET, OPENAI_BASE_URL: broken.url }, /openai/],
      [{ OPENAI_API_KEY: SECRET, OPENAI_BASE_URL: 'no address' }, /openai/],
      [{ VLLM_BASE_URL: huge.url }, /vllm/],
      [{ VLLM_BASE_URL: slow.url }, /vllm/],
      [{ VLLM_BASE_URL: (await startListing(t, listOf())).url }, /vllm/],
    ];
    for (const [environment, silent] of cases) {
      const begun = performance.now();
      const { config, problems, notice } = await found(environment);
      t.ok(performance.now() - begun < 2_500);
      t.strictSame(problems, []);
      t.match(notice, /^SIMULATED models only/);
      t.match(notice, silent);
      t.notMatch(notice, 'canary');
      t.ok(
        config?.models.every(
          ({ provider, description }) => provider === 'sim' && description.startsWith('Simulated'),
        ),
      );
      t.strictSame(
        config?.systems.map(({ id }) => id),
        ['vote', 'debate', 'fuse'],
      );
    }
  },
);

t.end();

t.test('a merged model must be of other models as they are, and the only one of its kind', (t) => {
  const parents = ['ada', 'bob'];
  const lineage = (text: string) =>
    /as they are, (.+): one has/.exec(text)?.[1] ?? t.fail(`no lineage in ${text}`);
  const child = (more: object = {}) => model({ id: 'child', merged: { parents, method: 'ties' }, ...more });
  const problemsOf = (models: object[], more: object = {}) =>
    read(team({ models, ...more })).problems.map(({ path, message }) => `${path} ${message}`);
  const two = [model(), model({ id: 'bob' })];

  const [stale = ''] = problemsOf([...two, child()]);
  t.match(stale, /^models.child.revision .*ada@[0-9a-f]{12} \+ bob@[0-9a-f]{12}/);
  const revision = `ties of ${String(lineage(stale))}`;
  t.same(problemsOf([...two, child({ revision })]), []);
  t.same(problemsOf([...two, child({ revision: `${revision}, again` })]), [], 'with words of one’s own');
  const moved = [model({ baseUrl: 'http://elsewhere/v1' }), model({ id: 'bob' })];
  t.same(problemsOf([...moved, child({ revision })]), [], 'another address is no other parent');
  for (const change of [
    { revision: '2' },
    { weights: { at: 'org/ada', base: 'org/base', architecture: 'LlamaForCausalLM' } },
  ]) {
    const [problem] = problemsOf([model(change), model({ id: 'bob' }), child({ revision })]);
    t.match(problem, /^models.child.revision/, JSON.stringify(change));
  }
  for (const wrong of [
    ['ada', 'eve'],
    ['ada', 'child'],
  ])
    t.match(
      problemsOf([...two, child({ merged: { parents: wrong, method: 'ties' } })])[0],
      `models.child.merged.parents there is no other model ${wrong[1]}`,
    );
  t.match(
    problemsOf([...two, child({ merged: { parents: ['ada'], method: 'ties' } })])[0],
    'models.child.merged.parents',
  );
  const twin = { ...child({ revision }), id: 'twin' };
  t.match(problemsOf([...two, child({ revision }), twin])[0], 'models.twin.merged another model');
  const other = { ...twin, merged: { parents, method: 'linear' } };
  t.same(problemsOf([...two, child({ revision }), other]), []);
  t.end();
});

t.test('what is trained is in no pool of merged weights', (t) => {
  const hosting = { replicas: ['http://h'], maxRank: 2 };
  const train = { policy: 'ada', trainer: 'smith', prompts: 'a.jsonl', holdout: 'b.jsonl' };
  const document = team(
    {
      models: [model({ hosting }), model({ id: 'bob' })],
      pools: [
        { id: 'pair', members: ['ada', 'bob'] },
        { id: 'blend', members: ['ada', 'bob'], merged: 'linear' },
      ],
      trainers: [{ id: 'smith', baseUrl: 'http://t', baseModel: 'org/base' }],
    },
    { train },
  );
  const paths = read(document).problems.map(({ path, message }) => `${path} ${message}`);
  t.match(paths.join(), 'pools.blend.merged ada is trained by system talk');
  t.end();
});
