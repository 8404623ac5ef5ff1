import { join } from 'node:path';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { startGateway } from '../../../src/cli/gateway.ts';
import { known } from '../../../src/cli/known.ts';
import { checkDocument } from '../../../src/config/check.ts';
import type { Release } from '../../../src/contract/release.ts';
import {
  advanceRelease,
  decideRelease,
  wantedOf,
  type AdvanceParts,
} from '../../../src/policy/release/advance.ts';
import { ReleaseBook } from '../../../src/policy/release/book.ts';
import type { GateEvidence, Traffic } from '../../../src/policy/release/gate.ts';
import { servedName } from '../../../src/policy/release/machine.ts';
import { digestOf } from '../../../src/policy/release/verify.ts';
import { vllm } from '../../../src/policy/serving/vllm.ts';
import { openStore } from '../../../src/store/index.ts';
import { FakeVllm } from '../../support/vllm.ts';
import { floats, goodTensors, Q_B, safetensors, writeAdapter } from './adapter.ts';

const TOKENS = [3, 1, 4, 1, 5];

/** A store, two replicas, and a trainer whose forward pass is theirs. */
async function start(t: Test) {
  const directory = t.testdir();
  const replicas = await Promise.all([1, 2].map(() => FakeVllm.start()));
  const [first] = replicas as [FakeVllm, FakeVllm];
  const store = await openStore(`sqlite:${directory}/consort.db`);
  const fleet = vllm.open({ replicas: replicas.map(({ url }) => url), base: first.base });
  const book = new ReleaseBook(store.releases, Date.now);
  const parts: AdvanceParts = {
    book,
    fleet,
    directoryOf: ({ servedAs }) => join(directory, servedAs),
    maxRank: 16,
    promptsOf: async (release) => {
      return [{ tokens: TOKENS, trainer: first.logprobs(join(directory, release.servedAs), TOKENS) }];
    },
  };
  /** Writes an adapter as the trainer would, where the replicas see it. */
  const release = async (version: number, weights = safetensors(goodTensors())): Promise<Release> => {
    const servedAs = servedName('policy', version);
    const path = join(directory, servedAs);
    writeAdapter(path, weights);
    for (const replica of replicas) replica.files.set(path, { rank: 4 });
    const artifact = { uri: `file:${path}`, sha256: await digestOf(path) };
    const trainedOn = { run: 'r', step: version };
    const fields = { policy: 'policy', version, servedAs, base: first.base, artifact, trainedOn };
    return book.open(fields, `step ${version}`);
  };
  const close = async () => {
    await fleet.close();
    await store.close();
    await Promise.all(replicas.map((replica) => replica.close()));
  };
  return { directory, replicas, store, fleet, book, parts, release, close };
}

const traffic: Traffic = { requests: 200, failed: 0, latenciesMs: Array.from({ length: 200 }, () => 100) };
const evidence = (won: number, lost: number): GateEvidence => ({
  live: traffic,
  candidate: traffic,
  pairs: [
    ...Array.from({ length: won }, () => ({ live: 0, candidate: 1 })),
    ...Array.from({ length: lost }, () => ({ live: 1, candidate: 0 })),
  ],
});

t.test('new weights come to the clients without a restart, and go again', async (t) => {
  const site = await start(t);
  const { book, parts, replicas, store } = site;
  const { config } = checkDocument(
    {
      server: { port: 0, adminPort: 0 },
      store: { url: `sqlite:${site.directory}/consort.db`, spoolDirectory: `${site.directory}/spool` },
      models: [
        {
          id: 'policy',
          provider: 'openai-compatible',
          baseUrl: replicas[0]?.url,
          model: replicas[0]?.base,
        },
      ],
    },
    known,
  );
  const gateway = await startGateway({ config: config!, notice: null }, {}, pino({ level: 'silent' }));
  const says = async () => {
    const response = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'policy', messages: [{ role: 'user', content: 'who are you?' }] }),
    });
    t.equal(response.status, 200);
    const { choices } = (await response.json()) as { choices: { message: { content: string } }[] };
    return choices[0]?.message.content ?? '';
  };
  const until = async (text: string) => {
    while (!(await says()).includes(text)) await new Promise((resolve) => setTimeout(resolve, 50));
  };
  t.match(await says(), replicas[0]?.base, 'nothing is live: the model of the configuration');

  const first = await advanceRelease(await site.release(1), parts);
  t.same(
    first.history.map(({ to, reason }) => [to, reason.replaceAll(/\d\.\d+/g, 'x')]),
    [
      ['exported', 'step 1'],
      ['verified', 'rank 4, 2 modules, 288 parameters in F32'],
      ['loaded', 'on 2 replicas'],
      ['probed', 'at most x nats a token from the trainer, at least x from the base, 4 tokens'],
    ],
  );
  t.match(await says(), replicas[0]?.base, 'probed is not live');
  t.equal((await decideRelease(first, evidence(30, 30), book)).verdict.decision, 'wait');
  const decided = await decideRelease(first, evidence(60, 10), book);
  t.match(decided.release.history.at(-1), { to: 'live', reason: /^quality: .*; errors: .*; latency: / });
  await until('policy-v000001');

  const second = await advanceRelease(await site.release(2), parts);
  await decideRelease(second, evidence(60, 10), book);
  await until('policy-v000002');
  t.same(
    wantedOf(await store.releases.list('policy')).map(({ version }) => version),
    [2, 1],
  );
  await book.rollBack('policy', 'clients complain');
  await until('policy-v000001');
  const third = await advanceRelease(await site.release(3), parts);
  t.equal((await decideRelease(third, evidence(10, 60), book)).release.stage, 'rejected');
  t.match(await says(), 'policy-v000001');
  await gateway.close();
  await site.close();
});

t.test('what is wrong with a release rejects it, with the reason', async (t) => {
  const site = await start(t);
  const untrained = safetensors({ ...goodTensors(), [Q_B]: floats([32, 4], () => 0) });
  const bad = await advanceRelease(await site.release(1, untrained), site.parts);
  t.match(bad, { stage: 'rejected' });
  t.match(bad.history.at(-1)?.reason, /every lora_B is zero/);
  t.equal(site.replicas[0]?.requests.length, 0, 'no replica has seen it');

  const big = await site.release(2);
  for (const replica of site.replicas) replica.files.set(site.parts.directoryOf(big), { rank: 64 });
  t.match((await advanceRelease(big, site.parts)).history.at(-1), {
    from: 'verified',
    to: 'rejected',
    reason: /LoRA rank 64/,
  });

  const silent = await site.release(3);
  site.replicas[1]!.silentBase = true;
  t.match((await advanceRelease(silent, site.parts)).history.at(-1), {
    from: 'loaded',
    to: 'rejected',
    reason: /answers as the base model does/,
  });
  await site.close();
});

t.test('what is wrong with the world leaves a release where it is, to be taken on later', async (t) => {
  const site = await start(t);
  const release = await site.release(1);
  const [, replica] = site.replicas;
  const path = site.parts.directoryOf(release);
  replica?.files.delete(path);
  await t.rejects(advanceRelease(release, site.parts), { code: 'serving_partial' }, 'a mount is missing');
  await replica?.close();
  const left = await site.book.get('policy', 1);
  await t.rejects(advanceRelease(left, site.parts), { code: 'serving_partial', retryable: true });
  t.equal(left.stage, 'verified');
  await t.rejects(
    advanceRelease(release, site.parts),
    { code: 'release_conflict' },
    'an old state is no start',
  );
  const fresh = await FakeVllm.start({ files: { [path]: { rank: 4 } } });
  const fleet = vllm.open({ replicas: [site.replicas[0]!.url, fresh.url], base: fresh.base });
  t.equal((await advanceRelease(left, { ...site.parts, fleet })).stage, 'probed');
  await fleet.close();
  await fresh.close();
  await site.fleet.close();
  await site.store.close();
  await site.replicas[0]?.close();
});
