import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { parse } from 'yaml';
import { readFlags } from '../../src/cli/command.ts';
import { known } from '../../src/cli/known.ts';
import { jobOf } from '../../src/cli/merge/job.ts';
import { merge } from '../../src/cli/merge/index.ts';
import { METHODS } from '../../src/cli/merge/methods.ts';
import { readMerges } from '../../src/cli/merge/request.ts';
import { writeJobs } from '../../src/cli/merge/write.ts';
import { checkDocument } from '../../src/config/check.ts';
import { Site } from '../support/serve.ts';

const weights = (id: string, more: object = {}) => ({
  at: `org/${id}`,
  base: 'org/base',
  architecture: 'LlamaForCausalLM',
  ...more,
});
const model = (id: string, more: object = {}) => ({
  id,
  provider: 'openai-compatible',
  baseUrl: 'http://h/v1',
  weights: weights(id),
  ...more,
});
const adapter = (id: string) => model(id, { weights: weights(id, { adapter: true }) });
const NAMES = ['ada', 'bob', 'cyd'];

function configOf(models: readonly object[] = NAMES.map((id) => model(id)), more: object = {}) {
  const { config, problems } = checkDocument({ models, ...more }, known);
  if (!config) throw new TypeError(JSON.stringify(problems));
  return config;
}

const jobsFor = (line: string, config = configOf()) => {
  const { flags } = readFlags(merge, line.split(' '), {});
  return readMerges(flags, config).map((one) => jobOf(one, 'jobs'));
};
const onlyJob = (line: string, config = configOf()) => jobsFor(line, config)[0]!;

/** The fields of mergekit's `MergeConfiguration` and `InputModelDefinition` (mergekit/config.py) that are used here. */
function mergekitFaults(document: Record<string, unknown>): string[] {
  const faults: string[] = [];
  const top = ['merge_method', 'base_model', 'models', 'parameters', 'dtype', 'out_dtype'];
  for (const field of Object.keys(document)) if (!top.includes(field)) faults.push(field);
  const isSetting = (value: unknown) => typeof value === 'number';
  const settings = (value: unknown = {}, names: readonly string[]) => {
    for (const [name, setting] of Object.entries(value as object))
      if (!names.includes(name) || !isSetting(setting)) faults.push(name);
  };
  settings(document['parameters'], ['lambda', 't']);
  for (const one of document['models'] as { model: unknown; parameters?: object }[]) {
    if (typeof one.model !== 'string') faults.push('model');
    settings(one.parameters, ['weight', 'density']);
  }
  return faults;
}

t.test('every method of whole models writes what mergekit reads', (t) => {
  for (const [method, needs] of Object.entries(METHODS)) {
    if (!needs.models) continue;
    const { files, id } = onlyJob(`--coalition ada,bob --method ${method}`);
    const document = parse(files['merge.yaml'] ?? '');
    t.strictSame(mergekitFaults(document), [], method);
    t.equal(document.merge_method, method);
    t.strictSame(
      document.models.map((one: { model: string }) => one.model),
      ['org/ada', 'org/bob'],
    );
    const base = { base: 'org/base', first: 'org/ada', none: undefined }[needs.mergekitBase];
    t.equal(document.base_model, base, 'the base of task vectors, or where slerp begins');
    t.equal(id, `ada.bob.${method.replaceAll('_', '-')}`);
  }
  t.end();
});

t.test('parameters go where mergekit looks for them', (t) => {
  const line =
    '--coalition ada,bob --method ties --weights 0.7,0.3 --density 0.2 --lambda 1.5 --dtype float32';
  t.strictSame(parse(onlyJob(line).files['merge.yaml'] ?? ''), {
    merge_method: 'ties',
    base_model: 'org/base',
    models: [
      { model: 'org/ada', parameters: { weight: 0.7, density: 0.2 } },
      { model: 'org/bob', parameters: { weight: 0.3, density: 0.2 } },
    ],
    parameters: { lambda: 1.5 },
    dtype: 'float32',
    out_dtype: 'float32',
  });
  t.strictSame(parse(onlyJob('--coalition bob,ada --method slerp --t 0.25').files['merge.yaml'] ?? ''), {
    merge_method: 'slerp',
    base_model: 'org/bob',
    models: [{ model: 'org/bob' }, { model: 'org/ada' }],
    parameters: { t: 0.25 },
    dtype: 'float32',
    out_dtype: 'bfloat16',
  });
  t.end();
});

t.test('adapters are for PEFT', (t) => {
  const config = configOf(NAMES.map(adapter));
  for (const [method, needs] of Object.entries(METHODS)) {
    if (!needs.adapters) continue;
    const { files, commands } = onlyJob(`--coalition ada,bob --method ${method}`, config);
    t.notOk(files['merge.yaml']);
    const job = JSON.parse(files['merge.json'] ?? '');
    t.match(job, { base: 'org/base', adapters: ['org/ada', 'org/bob'] });
    const density = needs.adapters.includes('density') ? { density: 0.5 } : {};
    t.strictSame(job.add_weighted_adapter, { weights: [0.5, 0.5], combination_type: method, ...density });
    t.match(commands[0], /^python jobs\/.*merge.py$/);
  }
  t.end();
});

t.test('the entry that it writes is a valid model whose revision names its parents', (t) => {
  for (const config of [configOf(), configOf(NAMES.map(adapter))]) {
    const { files, id } = onlyJob('--coalition ada,bob --method ties', config);
    const [entry] = parse(files['model.yaml'] ?? '');
    const pools = [{ id: 'pair', members: ['ada', 'bob'], merged: 'ties' }];
    const { problems } = checkDocument(
      {
        models: [...config.models, entry],
        pools,
        systems: [{ id: 'pair', pool: 'pair', protocol: 'single' }],
      },
      known,
    );
    t.strictSame(problems, []);
    t.equal(entry.id, id);
    t.match(
      entry.revision,
      /^ties weights=0.5,0.5 density=0.5 dtype=bfloat16 of ada@[0-9a-f]{12} \+ bob@[0-9a-f]{12}$/,
    );
  }
  const other = onlyJob('--coalition ada,bob --method ties --density 0.2').files['model.yaml'];
  t.match(other, 'density=0.2', 'and its parameters');
  t.end();
});

t.test('all coalitions of two or more', (t) => {
  const pools = [{ id: 'team', members: ['cyd', 'ada', 'bob'], merged: 'linear' }];
  const config = configOf(undefined, { pools });
  const jobs = jobsFor('--pool team --all --weights 3,1,2', config);
  t.strictSame(
    jobs.map(({ id }) => id),
    ['cyd.ada.linear', 'cyd.bob.linear', 'ada.bob.linear', 'cyd.ada.bob.linear'],
    'by the pool’s method and order',
  );
  const weightsOf = (index: number) =>
    parse(jobs[index]?.files['merge.yaml'] ?? '').models.map(
      (one: { parameters: { weight: number } }) => one.parameters.weight,
    );
  t.strictSame(weightsOf(1), [3, 2], 'each member with its own weight');
  const pairs = jobsFor('--coalition ada,bob,cyd --method slerp --all');
  t.equal(pairs.length, 3, 'as far as the method goes');
  const many = Array.from({ length: 11 }, (_, index) => model(`m${index}`));
  const names = many.map(({ id }) => id).join(',');
  t.throws(() => jobsFor(`--coalition ${names} --method linear --all`, configOf(many)), {
    code: 'merge_invalid',
    message: /11 models are 2036 merges, and 10 models are the most/,
  });
  t.equal(jobsFor(`--coalition ${names} --method linear`, configOf(many)).length, 1);
  const [long] = jobsFor(
    `--coalition ${'a'.repeat(50)},${'b'.repeat(50)} --method linear`,
    configOf([model('a'.repeat(50)), model('b'.repeat(50))]),
  );
  t.match(long?.id, /^[0-9a-f]{12}\.linear$/, 'names that are too long together');
  t.end();
});

t.test('what cannot be merged is refused with the reason and the remedy', (t) => {
  const odd = configOf([
    ...NAMES.map((id) => model(id)),
    model('gus', { weights: weights('gus', { architecture: 'GPT2LMHeadModel' }) }),
    model('hal', { weights: weights('hal', { base: 'org/other' }) }),
    { ...adapter('ivy') },
    adapter('joe'),
    { id: 'kim', provider: 'openai-compatible', baseUrl: 'http://h/v1' },
  ]);
  const cases: [string, string, RegExp][] = [
    ['--method ties', 'usage', /--coalition a,b or --pool/],
    ['--coalition ada,bob --pool x --method ties', 'usage', /--coalition a,b or --pool/],
    ['--pool x --method ties', 'usage', /no pool x; there are: none/],
    ['--coalition ada,bob', 'usage', /--method is required: linear/],
    ['--coalition ada,bob --method soup', 'usage', /one of linear.*got soup/],
    ['--coalition ada,zed --method ties', 'merge_invalid', /no model zed/],
    ['--coalition ada --method ties', 'merge_invalid', /two at least/],
    ['--coalition ada,ada --method ties', 'merge_invalid', /two at least/],
    ['--coalition ada,kim --method ties', 'merge_invalid', /nothing is said of the weights of kim/],
    ['--coalition ada,gus --method ties', 'merge_invalid', /weights.architecture .*gus: GPT2LMHeadModel/],
    ['--coalition ada,hal --method linear', 'merge_invalid', /weights.base .*hal: org\/other/],
    ['--coalition ada,ivy --method linear', 'merge_invalid', /weights.adapter .*ivy: true/],
    ['--coalition ada,bob --method cat', 'merge_invalid', /not for models/],
    ['--coalition ivy,joe --method slerp', 'merge_invalid', /not for adapters/],
    ['--coalition ada,bob,cyd --method slerp', 'merge_invalid', /it takes 2, and these are 3/],
    ['--coalition ada,bob --method linear --density 0.5', 'usage', /takes no --density/],
    ['--coalition ivy,joe --method ties --lambda 2', 'usage', /takes no --lambda here/],
    ['--coalition ada,bob --method slerp --weights 1,2', 'usage', /takes no --weights/],
    ['--coalition ada,bob --method ties --weights 1', 'usage', /takes 2 numbers, got 1/],
    ['--coalition ada,bob --method ties --weights 1,', 'usage', /takes 2 numbers/],
    ['--coalition ada,bob --method ties --density 2', 'usage', /from 0 to 1, got 2/],
    ['--coalition ada,bob --method ties --density 0', 'usage', /keeps nothing/],
  ];
  for (const [line, code, message] of cases) t.throws(() => jobsFor(line, odd), { code, message }, line);
  t.end();
});

function contentsOf(directory: string): Record<string, string> {
  const names = readdirSync(directory, { recursive: true, withFileTypes: true });
  return Object.fromEntries(
    names
      .filter((entry) => entry.isFile())
      .map((entry) => [entry.name, readFileSync(join(entry.parentPath, entry.name), 'utf8')]),
  );
}

t.test('a job that is there stays as it is, and another one never takes its place', (t) => {
  const out = t.testdir();
  const jobs = (density: number, ...names: string[]) =>
    readMerges(
      readFlags(
        merge,
        ['--coalition', names.join(','), '--method', 'ties', '--all', '--density', `${density}`],
        {},
      ).flags,
      configOf(),
    ).map((one) => jobOf(one, out));
  t.strictSame(writeJobs(jobs(0.5, 'ada', 'bob')), [true]);
  const before = contentsOf(out);
  t.same(Object.keys(before).toSorted(), ['README.md', 'merge.yaml', 'model.yaml']);
  t.strictSame(writeJobs(jobs(0.5, 'ada', 'bob')), [false]);
  t.strictSame(writeJobs(jobs(0.5, 'ada', 'bob', 'cyd')), [false, true, true, true]);
  const all = contentsOf(out);
  t.throws(() => writeJobs(jobs(0.2, 'ada', 'bob')), {
    code: 'merge_exists',
    message: /ada.bob.ties: its merge.yaml differs/,
  });
  const fresh = join(out, 'bob.ada.ties');
  const two = [...jobs(0.2, 'bob', 'ada'), ...jobs(0.2, 'ada', 'bob')];
  t.throws(() => writeJobs(two), { code: 'merge_exists' });
  t.notOk(readdirSync(out).includes('bob.ada.ties'), `nothing is written before all is known: ${fresh}`);
  t.strictSame(contentsOf(out), all);
  t.end();
});

t.test('a place with a space is quoted for the shell', (t) => {
  const { flags } = readFlags(merge, ['--coalition', 'ada,bob', '--method', 'linear'], {});
  const [only] = readMerges(flags, configOf()).map((one) => jobOf(one, "my team's"));
  t.equal(
    only?.commands[1],
    String.raw`vllm serve 'my team'\''s/ada.bob.linear/model' --served-model-name ada.bob.linear`,
  );
  t.end();
});

t.test('the command writes, says what to run, and merges nothing', async (t) => {
  const site = new Site({ models: NAMES.map((id) => model(id)) });
  t.teardown(() => site.close());
  const line = ['merge', '--coalition', 'ada,bob', '--method', 'linear', '--out', 'jobs'];
  const first = await site.run(...line).ended;
  t.equal(first.code, 0, first.stderr);
  t.match(first.stdout, 'jobs/ada.bob.linear (written); nothing is merged yet');
  t.match(first.stdout, 'mergekit-yaml jobs/ada.bob.linear/merge.yaml jobs/ada.bob.linear/model');
  const again = await site.run(...line, '--json').ended;
  const [job] = JSON.parse(again.stdout).jobs;
  t.match(job, { id: 'ada.bob.linear', directory: 'jobs/ada.bob.linear', written: false });
  const directory = join(site.directory, job.directory);
  t.same(readdirSync(directory).toSorted(), ['README.md', 'merge.yaml', 'model.yaml']);
  const other = await site.run(...line, '--weights', '1,2').ended;
  t.equal(other.code, 1);
  t.match(other.stderr, 'merge_exists');
});
