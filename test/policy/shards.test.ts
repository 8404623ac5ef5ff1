import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { on, once } from 'node:events';
import { readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import t from 'tap';
import type { TrajectoryGroup } from '../../src/contract/trajectory.ts';
import { readGroups, readManifest, writeShard } from '../../src/policy/shards.ts';
import { madeGroup, runOf } from '../support/trajectories.ts';

const AT = Date.UTC(2026, 10, 30, 9, 8, 7, 6);

const groupNamed = (groupId: string, second: number | null = 0) =>
  madeGroup([runOf(1), runOf(second)], { groupId, advantage: 'std' });

async function all(directory: string): Promise<TrajectoryGroup[]> {
  return Array.fromAsync(readGroups(directory));
}

void t.test('groups come back as they went out, once each, in order', async (t) => {
  const directory = join(t.testdir(), 'made', 'on', 'the', 'way');
  t.same(await all(directory), [], 'nothing exported, nothing read');
  const [a, b, c] = [groupNamed('a'), groupNamed('b', 1), groupNamed('c', null)];
  const entry = await writeShard(directory, [a, b], AT);
  t.match(entry, { file: 'groups-20261130T090807Z-000000.jsonl.zst', groups: 2, accepted: 1, rollouts: 4 });
  await writeShard(directory, [b, c], AT);
  t.same(await all(directory), [a, b, c]);
  const manifest = await readManifest(directory);
  t.match(manifest, { updatedAt: '2026-11-30T09:08:07.006Z', groups: 4, accepted: 1, rollouts: 8 });
  t.same(manifest.shards[0], entry);
  const bytes = readFileSync(join(directory, entry.file));
  t.equal(createHash('sha256').update(bytes).digest('hex'), entry.sha256);
  t.equal(bytes.length, entry.bytes);
  // Any reader of JSON lines and zstd can have them.
  const lines = zstdDecompressSync(bytes).toString().trimEnd().split('\n');
  t.same(
    lines.map((line) => JSON.parse(line)),
    [a, b],
  );
  t.same(readdirSync(directory).toSorted(), [
    'groups-20261130T090807Z-000000.jsonl.zst',
    'groups-20261130T090807Z-000001.jsonl.zst',
    'manifest.json',
  ]);
  await writeShard(directory, [], AT + 1000);
  t.equal((await all(directory)).length, 3, 'an empty shard is a shard');
});

void t.test('what breaks an invariant is not written', async (t) => {
  const directory = t.testdir();
  const broken = structuredClone(groupNamed('broken'));
  broken.rollouts[0]!.advantage = NaN;
  await t.rejects(writeShard(directory, [groupNamed('fine'), broken], AT), {
    code: 'shard_invalid',
    message: /group broken cannot be used: \/rollouts\/0\/advantage/,
  });
  t.same(readdirSync(directory), []);
});

void t.test('torn and unlisted files of a crash are left alone', async (t) => {
  const directory = t.testdir();
  const first = await writeShard(directory, [groupNamed('a')], AT);
  const bytes = readFileSync(join(directory, first.file));
  // It was killed while it wrote the next shard, …
  writeFileSync(join(directory, 'groups-20261130T090807Z-000001.jsonl.zst.tmp'), bytes.subarray(0, 40));
  // … or after the shard and before the manifest, …
  const orphan = 'groups-20261130T080000Z-000001.jsonl.zst';
  writeFileSync(join(directory, orphan), zstdCompressSync(`${JSON.stringify(groupNamed('b'))}\n`));
  // … or within the manifest.
  writeFileSync(join(directory, 'manifest.json.tmp'), '{"schema":"crl.sha');
  t.same(
    (await all(directory)).map(({ groupId }) => groupId),
    ['a'],
  );
  await writeShard(directory, [groupNamed('b')], AT);
  t.same(
    (await all(directory)).map(({ groupId }) => groupId),
    ['a', 'b'],
  );
  t.notOk(readdirSync(directory).some((name) => name.endsWith('.tmp')));
});

void t.test('a listed shard that is not what was written is refused whole', async (t) => {
  const cases: [RegExp, (path: string, directory: string) => void][] = [
    [/it is listed and not there/, (path) => rmSync(path)],
    [
      /its SHA-256 is not the one in the manifest/,
      (path) => writeFileSync(path, readFileSync(path).subarray(0, -1)),
    ],
    [/it cannot be unpacked/, (path, directory) => relist(directory, path, Buffer.from('no zstd'))],
    [/it has 1 lines for 2 groups/, (path, directory) => relist(directory, path, packed([groupNamed('a')]))],
    [
      /line 2: \/ must be object/,
      (path, directory) =>
        relist(directory, path, zstdCompressSync(`${JSON.stringify(groupNamed('a'))}\n{"torn\n`)),
    ],
    [
      /line 2: baseline\.mean is 7/,
      (path, directory) => relist(directory, path, packed([groupNamed('a'), wrong()])),
    ],
    [
      /manifest\.json cannot be used: it is no manifest/,
      (_path, directory) => writeFileSync(join(directory, 'manifest.json'), '{'),
    ],
  ];
  for (const [index, [message, spoil]] of cases.entries()) {
    const directory = t.testdir({ [index]: {} });
    const place = join(directory, String(index));
    const { file } = await writeShard(place, [groupNamed('a'), groupNamed('b')], AT);
    spoil(join(place, file), place);
    await t.rejects(all(place), { code: 'shard_invalid', message }, message.source);
  }
});

function packed(groups: readonly TrajectoryGroup[]): Buffer {
  return zstdCompressSync(groups.map((group) => `${JSON.stringify(group)}\n`).join(''));
}

function wrong(): TrajectoryGroup {
  const group = groupNamed('wrong');
  return { ...group, baseline: { ...group.baseline, mean: 7 } };
}

/** Replaces a shard and its hash in the manifest. */
function relist(directory: string, path: string, bytes: Buffer): void {
  writeFileSync(path, bytes);
  const manifest = JSON.parse(readFileSync(join(directory, 'manifest.json'), 'utf8'));
  manifest.shards[0].sha256 = createHash('sha256').update(bytes).digest('hex');
  writeFileSync(join(directory, 'manifest.json.new'), JSON.stringify(manifest));
  renameSync(join(directory, 'manifest.json.new'), join(directory, 'manifest.json'));
}

void t.test('a writer that is killed at any moment leaves what it listed', async (t) => {
  const directory = join(t.testdir(), 'shards');
  const script = join(import.meta.dirname, 'shards-child.ts');
  let before = 0;
  for (let run = 0; run < 4; run++) {
    const child = spawn(process.execPath, [script, directory, String(run)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    // Killed while it writes the shard after the third, at another point of it each time.
    let shards = 0;
    for await (const [dots] of on(child.stdout, 'data')) if ((shards += dots.length) > 3) break;
    for (const until = performance.now() + 3 * run; performance.now() < until;);
    child.kill('SIGKILL');
    await once(child, 'exit');
    const groups = await all(directory);
    t.equal(groups.length % 40, 0, 'whole shards only');
    t.ok(groups.length >= before + 3 * 40, `${groups.length} groups after kill ${run}`);
    before = groups.length;
  }
});
