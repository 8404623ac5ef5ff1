import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import t, { type Test } from 'tap';
import type { TrainReport } from '../../src/cli/train/report.ts';
import type { TaskRow } from '../../src/contract/task.ts';
import { simRows } from '../../src/gateway/upstreams/sim/tasks.ts';
import { readGroups } from '../../src/policy/shards.ts';
import { openStore } from '../../src/store/index.ts';
import { startRedis } from '../support/redis.ts';
import { Site, type Running, type Served } from '../support/serve.ts';
import type { Heard } from '../support/tinker-server.ts';
import { startToyPolicy, type ToyPolicy } from '../support/toy-policy.ts';

const PROMPTS = simRows('reason', 40, 1);
const HOLDOUT = simRows('reason', 120, 2);
const WAIT_MS = 60_000;

/** Members in the order of ties: the policy first, so that a partner that disagrees does not matter. */
function documentOf({ tinker, vllm }: ToyPolicy, url: string, train: object) {
  const hosting = { replicas: [vllm.url], maxRank: 2 };
  return {
    store: { url },
    server: { port: 0, adminPort: 0 },
    models: [
      { id: 'policy', provider: 'openai-compatible', baseUrl: vllm.url, model: vllm.base, hosting },
      { id: 'sim-dingo', provider: 'sim', delays: false },
    ],
    pools: [{ id: 'pair', members: ['policy', 'sim-dingo'] }],
    trainers: [{ id: 'trainer', baseUrl: tinker.url, baseModel: 'tiny' }],
    systems: [
      {
        id: 'pair',
        pool: 'pair',
        protocol: 'vote',
        train: {
          policy: 'policy',
          trainer: 'trainer',
          prompts: 'prompts.jsonl',
          holdout: 'holdout.jsonl',
          group: 4,
          batch: 4,
          maxTokens: 1,
          rank: 2,
          learningRate: 2,
          concurrency: 24,
          gate: { margin: -0.3, alpha: 0.5 },
          ...train,
        },
      },
    ],
  };
}

interface Place {
  readonly site: Site;
  readonly policy: ToyPolicy;
  /** Runs `consort train` on the pair. */
  readonly train: (...flags: readonly string[]) => Running;
}

function writeTasks({ directory }: Site, name: string, rows: readonly TaskRow[]): void {
  writeFileSync(join(directory, name), rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
}

async function place(t: Test, url = 'sqlite:consort.db', train: object = {}): Promise<Place> {
  const policy = await startToyPolicy(
    [...PROMPTS, ...HOLDOUT],
    HOLDOUT.filter((_, index) => index % 10 === 0),
  );
  const site = new Site(documentOf(policy, url, train));
  writeTasks(site, 'prompts.jsonl', PROMPTS);
  writeTasks(site, 'holdout.jsonl', HOLDOUT);
  t.teardown(async () => {
    site.close();
    await policy.vllm.close();
    await policy.tinker.kill();
  });
  return { site, policy, train: (...flags) => site.run('train', '--system', 'pair', ...flags) };
}

async function until<T>(what: string, look: () => Promise<T | undefined> | T | undefined): Promise<T> {
  for (const end = performance.now() + WAIT_MS; performance.now() < end; await sleep(20)) {
    const found = await look();
    if (found !== undefined) return found;
  }
  throw new Error(`there is still no ${what}`);
}

const folderOf = ({ directory }: Site, run: string) => join(directory, '.consort/training', run);

/** The accepted groups of a run, in the order in which the trainer must have taken them. */
async function acceptedIn(site: Site, run: string): Promise<string[]> {
  const groups = await Array.fromAsync(readGroups(join(folderOf(site, run), 'groups')));
  return groups.filter(({ filter }) => filter.accepted).map(({ groupId }) => groupId);
}

/** The groups of every step that the journal says was taken, in that order. */
function trainedIn(site: Site, run: string): string[] {
  const text = readFileSync(join(folderOf(site, run), 'journal.ndjson'), 'utf8');
  const entries = text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { kind: string; step: number; groups: string[] });
  const steps = new Map(entries.filter(({ kind }) => kind === 'step').map((entry) => [entry.step, entry]));
  const taken = new Set(entries.filter(({ kind }) => kind === 'stepped').map(({ step }) => step));
  return [...taken].flatMap((step) => steps.get(step)?.groups ?? []);
}

/** The store of the processes, to see what they released. */
async function openReleases(t: Test, url: string) {
  const store = await openStore(url);
  t.teardown(() => store.close());
  return () => store.releases.list('policy');
}

/** The value of a sample of the learner's metrics; undefined before it is there. */
async function metricAt(adminUrl: string, sample: string): Promise<number | undefined> {
  const text = await (await fetch(`${adminUrl}/metrics`)).text();
  const line = text.split('\n').find((one) => one.startsWith(`${sample} `));
  return line === undefined ? undefined : Number(line.split(' ').at(-1));
}

const LEARNED = 'pair-policy';

t.jobs = 3;

t.test(
  'round by round each version gets to the clients, also past an outage',
  { buffered: true },
  async (t) => {
    // Slow to learn, so that there is something to learn in every round: a policy that is right always exports nothing.
    const train = { steps: 2, everyMinutes: 0, learningRate: 0.3 };
    const { site, policy } = await place(t, 'sqlite:consort.db', train);
    const releases = await openReleases(t, `sqlite:${join(site.directory, 'consort.db')}`);
    const { tinker, vllm } = policy;
    await tinker.kill();
    const { adminUrl, kill } = await site.learn();
    const errors = 'consort_policy_learner_errors_total{policy="policy",code="trainer_unreachable"}';
    await until('error', async () => (await metricAt(adminUrl, errors)) || undefined);
    await tinker.listen();
    const second = await until('second live version', async () =>
      (await releases()).find(({ stage, version }) => stage === 'live' && version > 1),
    );
    const moves = 'consort_policy_release_moves_total{policy="policy",stage="live"}';
    t.ok(Number(await metricAt(adminUrl, moves)) >= 1);
    t.ok(Number(await metricAt(adminUrl, 'consort_policy_step{policy="policy"}')) >= second.trainedOn.step);
    await tinker.kill();
    await sleep(300);
    const began = performance.now();
    await kill('SIGTERM');
    t.ok(performance.now() - began < 5_000, 'it does not wait for the trainer when it is told to end');
    const first = (await releases()).find(({ version }) => version === 1);
    t.match(first, { stage: 'retired', trainedOn: { run: LEARNED }, servedAs: 'policy-v000001' });
    t.ok(first?.history.some(({ to }) => to === 'live'));
    t.ok(second.trainedOn.step > Number(first?.trainedOn.step));
    t.ok(vllm.names().includes(second.servedAs));
    t.same(
      vllm.names().filter((name) => name.startsWith(LEARNED)),
      [],
      'nothing of the run is left',
    );
    const trained = trainedIn(site, LEARNED);
    t.same(trained, (await acceptedIn(site, LEARNED)).slice(0, trained.length));
  },
);

t.test('a run says what it gained, and --release brings it to the clients', { buffered: true }, async (t) => {
  const { site, train, policy } = await place(t);
  const gateway = await site.serve();
  const flags = ['--steps', '4', '--objective', 'team', '--json', '--release'];
  const { code, stdout, stderr } = await train(...flags).ended;
  t.equal(code, 0, stderr);
  const summary = JSON.parse(stdout) as TrainReport;
  const folder = folderOf(site, 'pair-team-0');
  const report = JSON.parse(readFileSync(join(folder, 'report.json'), 'utf8')) as TrainReport;
  t.match(summary, {
    run: 'pair-team-0',
    system: 'pair',
    policy: 'policy',
    objective: 'team',
    simulated: true,
  });
  t.same({ ...summary, curve: report.curve }, report);
  t.equal(report.curve.length, 4);
  t.equal(report.steps, policy.tinker.steps.length);
  t.equal(report.tasks, HOLDOUT.length);
  t.equal(report.rollouts, (await Array.fromAsync(readGroups(join(folder, 'groups')))).length * 4);
  t.ok(
    Math.abs(report.alone.before.value - 0.5) < 0.2,
    `it began by tossing a coin: ${report.alone.before.value}`,
  );
  t.ok(report.alone.change.interval[0] > 0, 'and got better');
  t.ok(report.team.change.interval[0] > 0);
  const { before, after } = report.leaveOneOut ?? { before: undefined, after: undefined };
  t.ok(Number(after?.value) > Number(before?.value));
  t.ok(
    report.curve.every(({ gap, accepted }) => accepted === 0 || Math.abs(gap ?? NaN) < 1e-9),
    'trainer and fleet agree',
  );
  const text = readFileSync(join(folder, 'report.txt'), 'utf8');
  t.match(text, /^SIMULATED/);
  t.match(text, new RegExp(`leave-one-out of the policy +${before?.value.toFixed(3)}`));
  t.match(readFileSync(join(folder, 'report.html'), 'utf8'), /^<!doctype html>/i);
  t.match(stderr, /version 1 is live: quality: \+0\.\d+ ± /);
  t.same(policy.vllm.names(), ['policy-v000001'], 'what was served for the run is gone');
  const answer = await until('answer of version 1', async () => {
    const model = await modelAt(gateway);
    return model === 'toy' ? undefined : model;
  });
  t.equal(answer, 'policy-v000001');
});

/** Which weights a client gets. */
async function modelAt({ url }: Served): Promise<string> {
  const headers = { 'content-type': 'application/json' };
  const messages = [{ role: 'user', content: HOLDOUT[0]?.prompt }];
  const body = JSON.stringify({ model: 'policy', messages });
  const response = await fetch(`${url}/v1/chat/completions`, { method: 'POST', headers, body });
  return ((await response.json()) as { model: string }).model;
}

t.test('Ctrl-C stops a run, and the same command goes on with it', { buffered: true }, async (t) => {
  const { site, train, policy } = await place(t);
  const { tinker } = policy;
  const flags = ['--steps', '5', '--run', 'stopped', '--limit', '40'];
  const first = train(...flags);
  const stuck = Promise.withResolvers<undefined>();
  // The third batch, as the weights after each of two steps have been exported for sampling.
  const exportsOf = () => tinker.heard.filter(({ path }) => path === 'save_weights_for_sampler').length;
  const isThird = ({ path }: Heard) => path === 'forward_backward' && exportsOf() === 2;
  tinker.fate = (heard) => (isThird(heard) ? stuck.promise : undefined);
  await until('second step', () => exportsOf() === 2 || undefined);
  const busy = await train(...flags).ended;
  t.equal(busy.code, 1);
  t.match(busy.stderr, /Run stopped is held by another process\..*\[train_busy\]/);
  await until('third batch', () => tinker.heard.some(isThird) || undefined);
  first.kill('SIGINT');
  const stopped = await first.ended;
  t.equal(stopped.code, 1);
  t.match(stopped.stderr, /Stopped after \d of 5 steps; the same command goes on/);
  const early = await acceptedIn(site, 'stopped');
  t.notOk(existsSync(join(folderOf(site, 'stopped'), 'report.json')));
  stuck.resolve(undefined);
  const { code, stdout, stderr } = await train(...flags).ended;
  t.equal(code, 0, stderr);
  t.match(stdout, /stopped: policy in pair, objective mix, \d steps/);
  const accepted = await acceptedIn(site, 'stopped');
  t.same(accepted.slice(0, early.length), early, 'with the batch that it had');
  t.same(trainedIn(site, 'stopped'), accepted, 'every accepted group was trained on once');
  t.equal(new Set(tinker.steps).size, tinker.steps.length);
});

t.test('wrong use is told with its remedy', { buffered: true }, async (t) => {
  const { site, train } = await place(t);
  const cases = [
    [['--system', 'nobody'], /system nobody has no train section; those that do: pair/],
    [['--system', 'pair', '--objective', 'fame'], /--objective takes one of team, solo, self, mix, got fame/],
  ] as const;
  for (const [flags, message] of cases) {
    const { code, stderr } = await site.run('train', ...flags).ended;
    t.equal(code, 2, flags.join(' '));
    t.match(stderr, message);
  }
  writeTasks(site, 'holdout.jsonl', [...HOLDOUT, PROMPTS[3]!]);
  const { code, stderr } = await train().ended;
  t.equal(code, 1);
  t.match(
    stderr,
    new RegExp(`holdout.jsonl.*${PROMPTS[3]!.id} is also in prompts.jsonl.*\\[tasks_invalid\\]`),
  );
});

t.test('a learner that is killed goes on where it was', { buffered: true }, async (t) => {
  const redis = await startRedis();
  t.teardown(() => redis.stop());
  const { site, policy } = await place(t, redis.url, { steps: 3 });
  const releases = await openReleases(t, redis.url);
  const client = new Redis(redis.url);
  t.teardown(() => client.disconnect());
  const { tinker } = policy;
  let trained: string | undefined;
  const moments: ((heard: Heard) => boolean)[] = [
    ({ path, model }) => path === 'optim_step' && model === trained,
    ({ path }) => /policy-v000001-s3\/archive/.test(path),
  ];
  for (const isNow of moments) {
    const learner = await site.learn();
    const dead = Promise.withResolvers<undefined>();
    tinker.fate = async (heard) => {
      // Scratch models of the self-test are never saved.
      if (heard.path.startsWith('save_weights')) trained = heard.model;
      if (!isNow(heard)) return undefined;
      await learner.kill('SIGKILL');
      dead.resolve(undefined);
      return 'unanswered';
    };
    await dead.promise;
    // As if the time of the dead learner's lease had passed.
    await client.del(await client.keys('consort:{lease:train*}:holder'));
  }
  tinker.fate = () => undefined;
  const learner = await site.learn();
  const live = await until('live version', async () =>
    (await releases()).find(({ stage }) => stage === 'live'),
  );
  await learner.kill('SIGTERM');
  t.match(live, { version: 1, trainedOn: { run: LEARNED, step: 3 } });
  t.equal((await releases()).length, 1, 'it was released once');
  t.same(
    trainedIn(site, LEARNED),
    await acceptedIn(site, LEARNED),
    'every accepted group was trained on once',
  );
  t.equal(new Set(tinker.steps).size, 3, 'three steps');
  t.equal(tinker.steps.length, 3, 'none of them twice');
});
