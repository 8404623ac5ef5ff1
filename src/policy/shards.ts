/**
 * Trajectory groups as files that any trainer can read: JSON lines, one group a line, compressed with zstd, and a
 * manifest with the count and the SHA-256 of every shard (docs/training.md, "Export format").
 *
 * A shard is in the manifest when it is whole and on the disk, and not before: both are written to a temporary file,
 * synced and renamed, the shard first. A crash in between leaves a shard that is not listed, and the groups in it are
 * exported again: delivery is at least once, and readers tell repeated groups by their id.
 */
import { createHash } from 'node:crypto';
import { mkdir, open, readFile, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { constants, zstdCompress, zstdDecompress } from 'node:zlib';
import Type, { type Static } from 'typebox';
import { Compile } from 'typebox/compile';
import { ConsortError } from '../contract/errors.ts';
import type { TrajectoryGroup } from '../contract/trajectory.ts';
import { groupProblems } from './group-check.ts';

const compress = promisify(zstdCompress);
const decompress = promisify(zstdDecompress);

/** Most bytes that a shard may unpack to: a file from elsewhere must not fill the memory. */
const MAX_SHARD_BYTES = 1024 ** 3;
const MANIFEST = 'manifest.json';

const ShardEntry = Type.Object({
  file: Type.String({ pattern: '^groups-[0-9TZ]+-[0-9]+\\.jsonl\\.zst$' }),
  /** Of the compressed bytes. */
  sha256: Type.String({ pattern: '^[0-9a-f]{64}$' }),
  bytes: Type.Integer({ minimum: 0 }),
  groups: Type.Integer({ minimum: 0 }),
  accepted: Type.Integer({ minimum: 0 }),
  rollouts: Type.Integer({ minimum: 0 }),
});
export type ShardEntry = Static<typeof ShardEntry>;

/** The counts are sums over the shards; a group that was exported twice counts twice. */
const Manifest = Type.Object({
  schema: Type.Literal('crl.shards/1'),
  /** RFC 3339. */
  updatedAt: Type.String(),
  groups: Type.Integer({ minimum: 0 }),
  accepted: Type.Integer({ minimum: 0 }),
  rollouts: Type.Integer({ minimum: 0 }),
  shards: Type.Array(ShardEntry),
});
export type Manifest = Static<typeof Manifest>;

const manifestSchema = Compile(Manifest);

/**
 * What was exported so far; a manifest without shards when nothing was.
 *
 * @throws shard_invalid when there is a manifest and it cannot be read
 */
export async function readManifest(directory: string): Promise<Manifest> {
  const path = join(directory, MANIFEST);
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    if (isMissing(error)) {
      return { schema: 'crl.shards/1', updatedAt: '', groups: 0, accepted: 0, rollouts: 0, shards: [] };
    }
    throw error;
  }
  const value = parse(text);
  if (!manifestSchema.Check(value))
    throw new ConsortError('shard_invalid', [path, 'it is no manifest of shards']);
  return value;
}

/**
 * Writes one shard and lists it. A directory has one writer at a time, which waits for each shard.
 *
 * @param at Unix milliseconds, for the names
 * @throws shard_invalid when a group breaks an invariant: nothing is written then
 */
export async function writeShard(
  directory: string,
  groups: readonly TrajectoryGroup[],
  at: number,
): Promise<ShardEntry> {
  for (const group of groups) {
    const [problem] = groupProblems(group);
    if (problem !== undefined) throw new ConsortError('shard_invalid', [`group ${group.groupId}`, problem]);
  }
  await mkdir(directory, { recursive: true });
  const manifest = await readManifest(directory);
  const updatedAt = new Date(at).toISOString();
  const stamp = updatedAt.replaceAll(/[-:]|\.\d+/g, '');
  const lines = groups.map((group) => `${JSON.stringify(group)}\n`).join('');
  const bytes = await compress(lines, { params: { [constants.ZSTD_c_checksumFlag]: 1 } });
  const entry: ShardEntry = {
    file: `groups-${stamp}-${String(manifest.shards.length).padStart(6, '0')}.jsonl.zst`,
    sha256: sha256(bytes),
    bytes: bytes.length,
    ...countsOf(groups),
  };
  await replaceFile(directory, entry.file, bytes);
  const shards = [...manifest.shards, entry];
  const next: Manifest = { schema: 'crl.shards/1', updatedAt, ...totalOf(shards), shards };
  await replaceFile(directory, MANIFEST, `${JSON.stringify(next, null, 2)}\n`);
  return entry;
}

/**
 * Every group once, in the order of writing.
 *
 * @throws shard_invalid when a listed shard is missing, changed, or holds what is no trajectory group
 */
export async function* readGroups(directory: string): AsyncGenerator<TrajectoryGroup, void, undefined> {
  const seen = new Set<string>();
  const { shards } = await readManifest(directory);
  for (const entry of shards) {
    for (const group of await readShard(directory, entry)) {
      if (seen.has(group.groupId)) continue;
      seen.add(group.groupId);
      yield group;
    }
  }
}

/**
 * The groups of the newest shard; none when there is no shard.
 *
 * @throws shard_invalid
 */
export async function lastShard(directory: string): Promise<TrajectoryGroup[]> {
  const entry = (await readManifest(directory)).shards.at(-1);
  return entry ? readShard(directory, entry) : [];
}

async function readShard(directory: string, { file, ...entry }: ShardEntry): Promise<TrajectoryGroup[]> {
  const path = join(directory, file);
  const refuse = (what: string, cause?: unknown) =>
    new ConsortError('shard_invalid', [path, what], { cause });
  const bytes = await readFile(path).catch((error: unknown) => {
    throw isMissing(error) ? refuse('it is listed and not there', error) : error;
  });
  if (sha256(bytes) !== entry.sha256) throw refuse('its SHA-256 is not the one in the manifest');
  const text = await decompress(bytes, { maxOutputLength: MAX_SHARD_BYTES }).catch((error: unknown) => {
    throw refuse('it cannot be unpacked', error);
  });
  const lines = text.toString('utf8').split('\n').slice(0, -1);
  if (lines.length !== entry.groups) throw refuse(`it has ${lines.length} lines for ${entry.groups} groups`);
  return lines.map((line, index) => {
    const value = parse(line);
    const [problem] = groupProblems(value);
    if (problem !== undefined) throw refuse(`line ${index + 1}: ${problem}`);
    return value as TrajectoryGroup;
  });
}

function countsOf(groups: readonly TrajectoryGroup[]): Pick<ShardEntry, 'groups' | 'accepted' | 'rollouts'> {
  return {
    groups: groups.length,
    accepted: groups.filter(({ filter }) => filter.accepted).length,
    rollouts: groups.reduce((sum, { rollouts }) => sum + rollouts.length, 0),
  };
}

function totalOf(shards: readonly ShardEntry[]): Pick<ShardEntry, 'groups' | 'accepted' | 'rollouts'> {
  const total = { groups: 0, accepted: 0, rollouts: 0 };
  for (const { groups, accepted, rollouts } of shards) {
    total.groups += groups;
    total.accepted += accepted;
    total.rollouts += rollouts;
  }
  return total;
}

/** The file is there whole or as it was before, whatever happens meanwhile. */
async function replaceFile(directory: string, name: string, content: Buffer | string): Promise<void> {
  const temporary = join(directory, `${name}.tmp`);
  {
    await using file = await open(temporary, 'w');
    await file.writeFile(content);
    await file.sync();
  }
  await rename(temporary, join(directory, name));
  // The new name, too, is on the disk only when its directory is.
  await using parent = await open(directory, 'r');
  await parent.sync();
}

function sha256(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex');
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
