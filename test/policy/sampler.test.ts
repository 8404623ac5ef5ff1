import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { Sampler } from '../../src/policy/sampler.ts';
import { vllm } from '../../src/policy/serving/vllm.ts';
import { FakeVllm } from '../support/vllm.ts';
import { writeAdapter } from './release/adapter.ts';

async function start(t: Test) {
  const directory = t.testdir();
  const replicas = await Promise.all([1, 2].map(() => FakeVllm.start()));
  const fleet = vllm.open({ replicas: replicas.map(({ url }) => url), base: 'Qwen/Qwen3-27B' });
  t.teardown(async () => {
    await fleet.close();
    await Promise.all(replicas.map((replica) => replica.close()));
  });
  const exported: string[] = [];
  const trainer = {
    exportPolicy(name: string, to: string) {
      exported.push(name);
      writeAdapter(to);
      for (const replica of replicas) replica.files.set(to, { rank: 4 });
      const checked = { rank: 4, tensors: 4, targetModules: [], sha256: '', bytes: 1, step: 1 };
      return Promise.resolve({ name, directory: to, ...checked });
    },
  };
  const open = (run = 'r') => new Sampler({ trainer, fleet, directory, run });
  return { directory, replicas, exported, open, names: () => replicas.map((replica) => replica.names()) };
}

t.test('each step has a name of its own, and only the newest is served', async (t) => {
  const { open, names, directory } = await start(t);
  const sampler = open();
  t.same(await sampler.at(0), { version: 0, adapter: null });
  t.match(await sampler.at(1), { version: 1, adapter: { servedAs: 'r-s000001', sha256: /^[0-9a-f]{64}$/ } });
  await sampler.at(2);
  t.same(names(), [['r-s000002'], ['r-s000002']]);
  t.same(readdirSync(directory), ['r-s000002']);
  await sampler.close();
  t.same(names(), [[], []]);
  t.same(readdirSync(directory), []);
});

t.test('what a process that died has left loaded goes, and nothing else', async (t) => {
  const { open, names, directory, exported } = await start(t);
  await open().at(1);
  await open('r-s').at(1);
  await open('other').at(1);
  const sampler = open();
  await sampler.at(2);
  t.same(names()[0]?.toSorted(), ['other-s000001', 'r-s-s000001', 'r-s000002']);
  t.notOk(existsSync(join(directory, 'r-s000001')));
  await open().at(2);
  t.equal(exported.filter((name) => name === 'r-s000002').length, 1, 'a whole export is used again');
});

t.test('a replica that restarted gets the weights again', async (t) => {
  const { open, names, replicas } = await start(t);
  const sampler = open();
  await sampler.at(1);
  replicas[1]?.restart();
  await sampler.at(1);
  t.same(names(), [['r-s000001'], ['r-s000001']]);
});

t.test('a sampler that served nothing unloads nothing', async (t) => {
  const { open, names } = await start(t);
  await open().at(1);
  await open().close();
  t.same(names(), [['r-s000001'], ['r-s000001']], 'it may be of the process that holds the run');
});
