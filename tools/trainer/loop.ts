/**
 * `npm run test:loop`: the whole loop with real servers, under traffic. A model server (the tiny team), a trainer
 * (SkyRL's JAX backend on the CPU), `consort serve`, `consort score` and `consort learn` on one Redis; learner and
 * trainer are killed again and again. Asserts, and writes what it measured to docs/experiments/whole-loop.md. Skips,
 * and says so, where the trainer is not installed (tools/trainer/install.sh).
 */
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { format, resolveConfig } from 'prettier';
import { startTinyTeam } from '../../bench/first-loop/servers.ts';
import type { Release } from '../../src/contract/release.ts';
import type { TaskRow } from '../../src/contract/task.ts';
import { openStore } from '../../src/store/index.ts';
import { startRedis } from '../../test/support/redis.ts';
import { Site } from '../../test/support/serve.ts';
import { acceptedGroups, gapOf, trainedGroups, versionsHeard, wasLive } from './loop-count.ts';
import { Traffic } from './loop-traffic.ts';
import { isInstalled, SkyRl } from './server.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const environment = resolve(root, process.env['CONSORT_TRAINER'] ?? '.consort/trainer');
const model = join(root, 'examples/tiny-team/models/tiny-policy');
const page = join(root, 'docs/experiments/whole-loop.md');
const POLICY = 'tiny-policy';
const RUN = `policy-fuse-${POLICY}`;
const BATCH = 4;
const KILLS = 4;
const LIVE = 2;
/** Longest pause before a kill. */
const PAUSE_MS = 8_000;
const MOST_MS = 480_000;

const rowsOf = (name: string): TaskRow[] =>
  readFileSync(join(root, `examples/tiny-team/tasks/${name}.jsonl`), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as TaskRow);

function documentOf(tinyUrl: string, trainerUrl: string, url: string): object {
  const plain = (id: string) => ({ id, provider: 'openai-compatible', baseUrl: tinyUrl });
  const train = {
    policy: POLICY,
    trainer: 'trainer',
    prompts: 'prompts.jsonl',
    holdout: 'holdout.jsonl',
    steps: 3,
    batch: BATCH,
    group: 4,
    waves: 2,
    everyMinutes: 0,
    maxTokens: 24,
    rank: 8,
    learningRate: 0.0005,
    concurrency: 4,
    // These rounds are too short to learn much: what is shown here is the way, so a version may be worse.
    gate: { margin: -0.5, alpha: 0.5 },
  };
  return {
    store: { url },
    server: { port: 0, adminPort: 0, maxStreamSeconds: 30 },
    models: [
      { ...plain(POLICY), hosting: { replicas: [tinyUrl], maxRank: 8 } },
      plain('tiny-ada'),
      plain('tiny-bo'),
    ],
    pools: [{ id: 'tiny', members: [POLICY, 'tiny-ada', 'tiny-bo'] }],
    trainers: [{ id: 'trainer', baseUrl: trainerUrl, baseModel: model }],
    systems: [{ id: 'policy-fuse', pool: 'tiny', protocol: 'fuse', train }],
  };
}

interface Found {
  readonly seconds: number;
  readonly kills: readonly string[];
  readonly releases: readonly Release[];
  readonly traffic: Traffic;
  readonly heard: readonly (readonly string[])[];
  readonly accepted: readonly string[];
  readonly trained: readonly string[];
}

async function whole(): Promise<Found> {
  await using closing = new AsyncDisposableStack();
  const tiny = await startTinyTeam(root);
  closing.defer(() => tiny.stop());
  const redis = await startRedis({ durable: true });
  closing.defer(() => redis.stop());
  const trainerFolder = mkdtempSync(join(tmpdir(), 'consort-loop-'));
  closing.defer(() => rmSync(trainerFolder, { recursive: true, force: true }));
  const trainer = new SkyRl({ environment, model, directory: trainerFolder, microBatch: 16 });
  closing.defer(() => trainer.kill());
  await trainer.start();
  const site = new Site(documentOf(tiny.baseUrl, trainer.url, redis.url));
  closing.defer(() => site.close());
  const lines = (rows: readonly TaskRow[]) => rows.map((row) => `${JSON.stringify(row)}\n`).join('');
  writeFileSync(join(site.directory, 'prompts.jsonl'), lines(rowsOf('train')));
  writeFileSync(join(site.directory, 'holdout.jsonl'), lines(rowsOf('holdout').slice(0, 100)));
  const store = await openStore(redis.url);
  closing.defer(() => store.close());
  const gateway = await site.serve();
  const scorer = await site.score();
  const began = performance.now();
  const traffic = new Traffic(gateway, 'policy-fuse', rowsOf('mixed'));
  const releases = () => store.releases.list(POLICY);
  const kills = await disturb(site, trainer, async () => (await releases()).filter(wasLive).length);
  const seconds = (performance.now() - began) / 1000;
  // The alias has followed by then, and some requests have named it.
  await sleep(3_000);
  await traffic.end();
  await gateway.kill('SIGTERM');
  await scorer.kill('SIGTERM');
  const run = join(site.directory, '.consort/training', RUN);
  return {
    seconds,
    kills,
    traffic,
    releases: await releases(),
    heard: await versionsHeard(store, POLICY),
    accepted: await acceptedGroups(run),
    trained: trainedGroups(run),
  };
}

/**
 * Kills learner and trainer by turns, each after a batch since the last kill and a pause of chance, until there were
 * enough kills and enough versions; then ends the learner.
 */
async function disturb(site: Site, trainer: SkyRl, live: () => Promise<number>): Promise<string[]> {
  const kills: string[] = [];
  const until = performance.now() + MOST_MS;
  let learner = await site.learn();
  for (let batches = 0; kills.length < KILLS || (await live()) < LIVE; await sleep(500)) {
    assert.ok(performance.now() < until, `after ${kills.length} kills, ${await live()} versions were live`);
    if (kills.length === KILLS || batchesOf(site) === batches) continue;
    await sleep(PAUSE_MS * Math.random());
    const victim = kills.length % 2 === 0 ? 'learner' : 'trainer';
    if (victim === 'learner') {
      await learner.kill('SIGKILL');
      learner = await site.learn();
    } else {
      await trainer.kill();
      await trainer.start();
    }
    kills.push(victim);
    batches = batchesOf(site);
    process.stderr.write(`${victim} killed after ${batches} batches; ${await live()} versions were live\n`);
  }
  await learner.kill('SIGTERM');
  return kills;
}

function batchesOf({ directory }: Site): number {
  const curve = join(directory, '.consort/training', RUN, 'curve.jsonl');
  return existsSync(curve) ? readFileSync(curve, 'utf8').split('\n').length - 1 : 0;
}

interface Verdict {
  readonly claim: string;
  readonly holds: boolean;
  readonly found: string;
}

function verdictsOf({ traffic, releases, heard, accepted, trained }: Found): Verdict[] {
  const live = releases.filter(wasLive);
  const current = releases.find(({ stage }) => stage === 'live');
  const mixed = heard.filter((versions) => versions.length > 1).length;
  const named = new Set(heard.flat());
  const last = heard.at(-1)?.[0] ?? '';
  const gaps = releases.map(gapOf).filter((gap) => !Number.isNaN(gap));
  const rest = accepted.length - trained.length;
  return [
    {
      claim: `at least ${LIVE} versions went live`,
      holds: live.length >= LIVE,
      found: live.map(({ version, trainedOn }) => `${version} after step ${trainedOn.step}`).join(', '),
    },
    {
      claim: 'the alias followed to the version that is live',
      holds: current?.servedAs === last,
      found: `requests named ${[...named].join(', ')}; ${current?.servedAs ?? 'none'} is live`,
    },
    {
      claim: 'no request failed',
      holds: traffic.failed.length === 0 && traffic.answered > 0,
      found: [
        `${traffic.answered} answered, ${traffic.failed.length} failed`,
        ...traffic.failed.slice(0, 3),
      ].join('; '),
    },
    { claim: 'no request mixed versions', holds: mixed === 0, found: `${mixed} of ${heard.length}` },
    {
      claim: 'every accepted group was trained on exactly once, in order; the last batch may wait',
      holds: rest >= 0 && rest <= BATCH && trained.every((group, index) => group === accepted[index]),
      found: `${accepted.length} accepted, ${trained.length} trained on, ${new Set(trained).size} different ones`,
    },
    {
      claim: 'the fleet serves what the trainer computes',
      holds: gaps.length >= LIVE && gaps.every((gap) => gap < 0.05),
      found: `${gaps.length} probes, at most ${Math.max(...gaps)} nats a token apart`,
    },
  ];
}

async function write(found: Found, verdicts: readonly Verdict[]): Promise<void> {
  const seconds = Math.round(found.seconds);
  const text = [
    '# The whole loop, with real servers',
    '',
    'Written by `npm run test:loop`: `consort serve`, `consort score` and `consort learn` on one Redis, the tiny team as',
    'the model server, SkyRL on the CPU as the trainer, and clients that ask the system all the time. Rounds of three',
    `steps of ${BATCH} groups of four; ${found.kills.length} times in ${seconds} s a process died by SIGKILL: ${found.kills.join(', ')}. The gate takes whatever is not`,
    'worse by half: this shows the way, not a gain ([the first loop](first-loop.md) measures that).',
    '',
    '| claim | holds | found |',
    '| --- | --- | --- |',
    ...verdicts.map(({ claim, holds, found: is }) => `| ${claim} | ${holds ? 'yes' : 'NO'} | ${is} |`),
    '',
    '| version | step | stage | last reason |',
    '| --- | --- | --- | --- |',
    ...found.releases.map(({ version, trainedOn, stage, history }) => {
      return `| ${version} | ${trainedOn.step} | ${stage} | ${history.at(-1)?.reason ?? ''} |`;
    }),
    '',
  ].join('\n');
  writeFileSync(page, await format(text, { ...(await resolveConfig(page)), filepath: page }));
}

if (!isInstalled(environment)) {
  process.stdout.write(`Skipped: no trainer in ${environment}. Install one with tools/trainer/install.sh.\n`);
} else {
  const found = await whole();
  const verdicts = verdictsOf(found);
  await write(found, verdicts);
  process.stdout.write(readFileSync(page, 'utf8'));
  process.exitCode = verdicts.every(({ holds }) => holds) ? 0 : 1;
}
