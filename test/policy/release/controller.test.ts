import { existsSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { ReleaseController, type ControllerParts } from '../../../src/policy/release/controller.ts';
import type { GateEvidence, Traffic } from '../../../src/policy/release/gate.ts';
import { vllm } from '../../../src/policy/serving/vllm.ts';
import { openStore } from '../../../src/store/index.ts';
import { FakeVllm } from '../../support/vllm.ts';
import { writeAdapter } from './adapter.ts';

const PROBES = [
  [3, 1, 4, 1, 5],
  [9, 2, 6],
];
const traffic: Traffic = { requests: 200, failed: 0, latenciesMs: Array.from({ length: 200 }, () => 100) };
const pairs = (won: number, lost: number): GateEvidence => ({
  live: traffic,
  candidate: traffic,
  pairs: [
    ...Array.from({ length: won }, () => ({ live: 0, candidate: 1 })),
    ...Array.from({ length: lost }, () => ({ live: 1, candidate: 0 })),
  ],
});

/** Two replicas, a store, a trainer whose forward pass is that of the replicas, and a gate that is told what to see. */
async function start(t: Test, more: Partial<ControllerParts> = {}) {
  const directory = t.testdir();
  const replicas = await Promise.all([1, 2].map(() => FakeVllm.start()));
  const [first] = replicas as [FakeVllm, FakeVllm];
  const store = await openStore(`sqlite:${directory}/consort.db`);
  const fleet = vllm.open({ replicas: replicas.map(({ url }) => url), base: first.base });
  let now = 1_790_000_000_000;
  const looked: (number | undefined)[] = [];
  const site = { evidence: pairs(60, 10), exported: [] as string[], broken: false };
  const controller = new ReleaseController({
    policy: 'policy',
    releases: store.releases,
    fleet,
    directory: join(directory, 'adapters'),
    maxRank: 16,
    compare(live) {
      looked.push(live?.version);
      return Promise.resolve(site.evidence);
    },
    gate: { margin: 0, alpha: 0.05 },
    now: () => (now += 1),
    graceMs: 60_000,
    ...more,
  });
  const trainer = {
    exportPolicy(name: string, to: string) {
      site.exported.push(name);
      writeAdapter(to);
      const path = to.replace('.exporting', '');
      for (const replica of replicas) replica.files.set(path, { rank: 4 });
      const checked = { rank: 4, tensors: 4, targetModules: [], sha256: '', bytes: 1, step: 1 };
      return Promise.resolve({ name, directory: to, ...checked });
    },
    score(sequences: readonly (readonly number[])[]) {
      if (site.broken) return Promise.reject(new Error('cut off'));
      const version = site.exported.length;
      const path = join(directory, 'adapters', `policy-v${String(version).padStart(6, '0')}`);
      return Promise.resolve(sequences.map((tokens) => first.logprobs(path, tokens).slice(1).map(Number)));
    },
  };
  const release = (step: number) => controller.export({ trainer, run: 'r', step, probes: PROBES });
  t.teardown(async () => {
    await fleet.close();
    await store.close();
    await Promise.all(replicas.map((replica) => replica.close()));
  });
  return { directory, replicas, store, controller, site, looked, release, pass: (ms: number) => (now += ms) };
}

t.test(
  'an export goes through the checks to the gate and live, and the next one takes its place',
  async (t) => {
    const { controller, store, site, looked, release, replicas } = await start(t);
    t.equal(await controller.advance(), undefined, 'nothing to do');
    t.match(await release(20), { version: 1, stage: 'exported', servedAs: 'policy-v000001' });
    t.match(await controller.advance(), { release: { stage: 'live' }, verdict: { decision: 'promote' } });
    site.evidence = pairs(10, 60);
    await release(40);
    t.match(await controller.advance(), { release: { version: 2, stage: 'rejected' } });
    t.same(
      looked,
      [undefined, 1],
      'the first is compared with the configured model, the second with the live one',
    );
    t.match(await store.releases.live('policy'), { version: 1, trainedOn: { run: 'r', step: 20 } });
    t.same(
      site.exported,
      ['policy-v000001-s20', 'policy-v000002-s40'],
      'no name of the trainer is used twice',
    );
    t.ok(replicas.every((replica) => replica.names().includes('policy-v000001')));
  },
);

t.test(
  'a gate that has spent its prompts without an answer leaves the version to the operator',
  async (t) => {
    const { controller, store, site, looked, release } = await start(t);
    site.evidence = pairs(30, 28);
    await release(20);
    const decided = await controller.advance();
    t.match(decided, { release: { stage: 'retired' }, verdict: { decision: 'wait' } });
    t.match(decided?.release.history.at(-1)?.reason, /^not shown to be better: quality: undecided: /);
    t.equal(await controller.advance(), undefined, 'and is not asked again');
    t.equal(looked.length, 1);
    t.equal(await store.releases.live('policy'), undefined);
  },
);

t.test('an open version makes way for a newer one', async (t) => {
  const { controller, store, release } = await start(t);
  await release(20);
  await release(40);
  t.match(await controller.advance(), { release: { version: 2, stage: 'live' } });
  const [, first] = await store.releases.list('policy');
  t.match(first, { version: 1, stage: 'rejected' });
  t.match(first?.history.at(-1)?.reason, 'version 2 came before it was decided on');
});

t.test('an export that was cut off is no release, and is made again', async (t) => {
  const { controller, store, site, release, directory } = await start(t);
  site.broken = true;
  await t.rejects(release(20), /cut off/);
  t.same(await store.releases.list('policy'), []);
  t.notOk(existsSync(join(directory, 'adapters', 'policy-v000001')), 'nothing stands in its place');
  site.broken = false;
  site.exported.length = 0;
  await release(20);
  t.match(await controller.advance(), { release: { version: 1, stage: 'live' } });
});

t.test('replicas that forgot get what is wanted, and lose what no request can name any more', async (t) => {
  const { controller, replicas, release, pass } = await start(t);
  for (const step of [1, 2, 3]) {
    await release(step);
    await controller.advance();
  }
  const all = ['policy-v000001', 'policy-v000002', 'policy-v000003'];
  await controller.restore();
  t.same(replicas[0]?.names(), all, 'within its grace the oldest stays');
  replicas[1]?.restart();
  await controller.restore();
  t.same(replicas[1]?.names().toSorted(), all.slice(1), 'the live one and the one before it');
  pass(61_000);
  await controller.restore();
  t.same(
    replicas.map((replica) => replica.names().toSorted()),
    [all.slice(1), all.slice(1)],
  );
});
