/** The ledger on streams: one a pool, consumer groups, and markers that make an outcome's append idempotent. */
import type { Redis } from 'ioredis';
import { compareEntryIds, parseEntryId } from '../entry-id.ts';
import { decodeEntry, encodeEntry, isWork } from '../entry.ts';
import {
  type Delivery,
  type FollowOptions,
  type Lag,
  type Ledger,
  type LedgerEntry,
  MOST_BURIED,
} from '../../contract/store.ts';
import type { StoreSettings } from '../options.ts';
import { type Commands, type Connection, isReply } from './connection.ts';
import { PlanList } from '../shared-plan.ts';
import { buriedKey, markerKey, plansKey, plansUsedKey, pointerKey, POOLS, streamKey } from './keys.ts';

/** Most entries and characters of one script call: what it holds the server for stays under a few milliseconds. */
const MAX_ENTRIES = 256;
const MAX_CHARS = 1_048_576;

/** Markers outlive what the stream keeps by this, so that a late replay cannot append a trimmed outcome again. */
const MARKER_MARGIN_MS = 86_400_000;

/** An entry as ioredis gives it: id and field, value, field, value… */
type StreamEntry = [id: string, fields: string[] | null];

export function redisLedger(connection: Connection, settings: StoreSettings): Ledger {
  const life = settings.retentionMs + MARKER_MARGIN_MS;
  const skip = settings.onSkipped;
  return {
    async append(entries) {
      for (const [pool, chunk] of chunks(entries)) {
        await connection.run((redis) => append(redis, pool, chunk, life));
      }
    },
    async read(pool, after, count) {
      const found = await connection.run((redis) =>
        redis.xrange(streamKey(pool), `(${after}`, '+', 'COUNT', count),
      );
      const plans = await connection.run((redis) => plansOf(redis, pool, found));
      return found.flatMap((entry) => decode(entry, plans, 0) ?? skipped(skip, pool, entry[0]));
    },
    follow: (options) => follow(connection, options, skip),
    async acknowledge(pool, group, ids) {
      if (ids.length > 0) await connection.run((redis) => redis.xack(streamKey(pool), group, ...ids));
    },
    async outcome(id) {
      const found = await connection.run((redis) => find(redis, id));
      return found?.kind === 'outcome' ? found.outcome : undefined;
    },
    pools: async () => (await connection.run((redis) => redis.smembers(POOLS))).toSorted(),
    async trim(beforeMs) {
      const pools = await connection.run((redis) => redis.smembers(POOLS));
      const dropped = pools.map((pool) => connection.run((redis) => trim(redis, pool, beforeMs)));
      return (await Promise.all(dropped)).reduce((sum, count) => sum + count, 0);
    },
    lag: (pool, group) => connection.run((redis) => lag(redis, streamKey(pool), group)),
    async bury(pool, group, id, reason) {
      const grave = ['MAXLEN', '~', MOST_BURIED, '*', 'id', id, 'reason', reason] as const;
      await connection.run(async (redis) => {
        await redis.xadd(buriedKey(pool), ...grave);
        await redis.xack(streamKey(pool), group, id);
      });
    },
    async buried(pool) {
      const found = await connection.run((redis) => redis.xrange(buriedKey(pool), '-', '+'));
      return found.map(([, fields]) => ({ id: fields[1] ?? '', reason: fields[3] ?? '' }));
    },
  };
}

/** Splits entries into script calls: one pool each, bounded, in order within a pool. */
function chunks(entries: readonly LedgerEntry[]): [pool: string, chunk: LedgerEntry[]][] {
  const all: [string, LedgerEntry[]][] = [];
  for (const [pool, group] of Map.groupBy(entries, (entry) => entry.pool)) {
    for (let i = 0; i < group.length; i += MAX_ENTRIES) all.push([pool, group.slice(i, i + MAX_ENTRIES)]);
  }
  return all;
}

/**
 * Appends to one pool. The pointers go first: an outcome that is in the stream can be found, and one that a crash
 * kept out of it is repaired by the retry, which finds no marker.
 */
async function append(
  redis: Commands,
  pool: string,
  entries: readonly LedgerEntry[],
  life: number,
): Promise<void> {
  const outcomes = entries.flatMap((entry) => (entry.kind === 'outcome' ? [entry.outcome.id] : []));
  const known = [
    redis.sadd(POOLS, pool),
    ...outcomes.map((id) => redis.set(pointerKey(id), pool, 'PX', life)),
  ];
  const scripts = scriptCalls(entries).map((call) => {
    const markers = call.outcomes.map((id) => markerKey(pool, id));
    const keys = [streamKey(pool), plansKey(pool), plansUsedKey(pool), ...markers];
    const plans = call.plans.all.flatMap(({ hash, text }) => [hash, text]);
    const args = [life, call.kinds, call.plans.all.length, ...plans, ...call.entries];
    return redis.consortAppend(keys.length, ...keys, ...args);
  });
  await Promise.all([...known, ...scripts]);
}

interface ScriptCall {
  kinds: string;
  chars: number;
  readonly outcomes: string[];
  readonly plans: PlanList;
  /** Body and place of the plan, from 1, for each. */
  readonly entries: (string | number)[];
}

function scriptCalls(entries: readonly LedgerEntry[]): ScriptCall[] {
  const calls: ScriptCall[] = [];
  for (const entry of entries) {
    const { body, plan } = encodeEntry(entry);
    let call = calls.at(-1);
    if (!call || call.chars + body.length > MAX_CHARS) {
      call = { kinds: '', chars: 0, outcomes: [], plans: new PlanList(), entries: [] };
      calls.push(call);
    }
    call.kinds += entry.kind === 'reward' ? 'r' : isWork(entry) ? 'o' : 'p';
    call.chars += body.length;
    call.entries.push(body, plan ? call.plans.add(plan) + 1 : 0);
    if (entry.kind === 'outcome') call.outcomes.push(entry.outcome.id);
  }
  return calls;
}

async function find(redis: Redis, outcome: string): Promise<LedgerEntry | undefined> {
  const pool = await redis.get(pointerKey(outcome));
  const id = pool === null ? null : await redis.get(markerKey(pool, outcome));
  if (pool === null || id === null) return undefined;
  const found = await redis.xrange(streamKey(pool), id, id);
  const [entry] = found;
  return entry && decode(entry, await plansOf(redis, pool, found), 0)?.entry;
}

/** The hash of what the plan of an entry shares. */
const planOf = ([, fields]: StreamEntry): string | undefined => fields?.[5];

/** What the plans of entries share, by hash: read after them, and kept as long as one of them is. */
async function plansOf(
  redis: Redis,
  pool: string,
  entries: readonly StreamEntry[],
): Promise<ReadonlyMap<string, string>> {
  const hashes = [...new Set(entries.flatMap((entry) => planOf(entry) ?? []))];
  if (hashes.length === 0) return new Map();
  const texts = await redis.hmget(plansKey(pool), ...hashes);
  return new Map(hashes.map((hash, index) => [hash, texts[index] ?? '']));
}

function decode(
  stored: StreamEntry,
  plans: ReadonlyMap<string, string>,
  deliveries: number,
): Delivery | undefined {
  const [id, fields] = stored;
  const entry = decodeEntry(fields?.[1] ?? '', plans.get(planOf(stored) ?? ''));
  return entry && { id, entry, deliveries };
}

function skipped(skip: StoreSettings['onSkipped'], pool: string, id: string): [] {
  skip(pool, id);
  return [];
}

async function follow(
  connection: Connection,
  options: FollowOptions,
  skip: StoreSettings['onSkipped'],
): Promise<Delivery[]> {
  const { pool, group } = options;
  const taken = await inGroup(connection, options, async () => {
    const claimed = await connection.run((redis) => claim(redis, options));
    return claimed.length > 0 ? claimed : await next(connection, options);
  });
  const work = taken.filter(([entry]) => entry[1]?.[3] !== 'p');
  const entries = work.map(([entry]) => entry);
  const plans = await connection.run((redis) => plansOf(redis, pool, entries));
  const deliveries = work.flatMap(
    ([entry, count]) => decode(entry, plans, count) ?? skipped(skip, pool, entry[0]),
  );
  const readable = new Set(deliveries.map(({ id }) => id));
  const unread = taken.flatMap(([[id]]) => (readable.has(id) ? [] : [id]));
  if (unread.length > 0) await connection.run((redis) => redis.xack(streamKey(pool), group, ...unread));
  return deliveries;
}

/** Runs a read, making the group when it is missing: at first, and when the server came back empty. */
async function inGroup<T>(
  connection: Connection,
  options: FollowOptions,
  read: () => Promise<T>,
): Promise<T> {
  try {
    return await read();
  } catch (error) {
    if (!(
      error instanceof Error &&
      error.cause instanceof Error &&
      error.cause.message.startsWith('NOGROUP')
    )) {
      throw error;
    }
  }
  await connection.run(async (redis) => {
    try {
      await redis.xgroup('CREATE', streamKey(options.pool), options.group, '0', 'MKSTREAM');
    } catch (error) {
      if (!(isReply(error) && error.message.startsWith('BUSYGROUP'))) throw error;
    }
  });
  return read();
}

type Taken = [entry: StreamEntry, deliveries: number];

/** Entries that some consumer has held for too long. */
async function claim(
  redis: Redis,
  { pool, group, consumer, count, claimIdleMs }: FollowOptions,
): Promise<Taken[]> {
  const stream = streamKey(pool);
  let cursor = '0-0';
  do {
    const reply = await redis.xautoclaim(stream, group, consumer, claimIdleMs, cursor, 'COUNT', count);
    const [following, entries] = reply as [string, StreamEntry[]];
    const first = entries[0];
    const last = entries.at(-1);
    if (first && last) {
      const held = (await redis.xpending(stream, group, first[0], last[0], count, consumer)) as [
        id: string,
        consumer: string,
        idleMs: number,
        deliveries: number,
      ][];
      const counts = new Map(held.map(([id, , , deliveries]) => [id, deliveries]));
      return entries.map((entry) => [entry, counts.get(entry[0]) ?? 2]);
    }
    cursor = following;
  } while (cursor !== '0-0');
  return [];
}

/** New entries, waiting for one if there is none. */
async function next(connection: Connection, options: FollowOptions): Promise<Taken[]> {
  const { pool, group, consumer, count, blockMs } = options;
  const stream = streamKey(pool);
  const reply =
    blockMs > 0
      ? await connection.wait(JSON.stringify([pool, group, consumer]), blockMs, (reader) =>
          reader.xreadgroup(
            'GROUP',
            group,
            consumer,
            'COUNT',
            count,
            'BLOCK',
            blockMs,
            'STREAMS',
            stream,
            '>',
          ),
        )
      : await connection.run((redis) =>
          redis.xreadgroup('GROUP', group, consumer, 'COUNT', count, 'STREAMS', stream, '>'),
        );
  const streams = (reply ?? []) as [string, StreamEntry[]][];
  return streams.flatMap(([, entries]) => entries.map((entry): Taken => [entry, 1]));
}

/** Drops what is older than `beforeMs`, but nothing that a group has yet to see or to acknowledge. */
async function trim(redis: Commands, pool: string, beforeMs: number): Promise<number> {
  const stream = streamKey(pool);
  let floor = parseEntryId(`${beforeMs}-0`);
  const groups = await groupNames(redis, stream);
  for (const { name, lastId } of groups) {
    const [held, oldest] = (await redis.xpending(stream, name)) as [number, string | null];
    const seen = parseEntryId(lastId);
    const own = held > 0 && oldest !== null ? parseEntryId(oldest) : { ms: seen.ms, seq: seen.seq + 1 };
    if (compareEntryIds(own, floor) < 0) floor = own;
  }
  const keys = [stream, plansKey(pool), plansUsedKey(pool)];
  return Number(await redis.consortTrim(...keys, `${floor.ms}-${floor.seq}`));
}

async function groupNames(redis: Redis, stream: string): Promise<{ name: string; lastId: string }[]> {
  if ((await redis.exists(stream)) === 0) return [];
  const groups = (await redis.xinfo('GROUPS', stream)) as string[][];
  return groups.map((flat) => ({
    name: flat[flat.indexOf('name') + 1] ?? '',
    lastId: flat[flat.indexOf('last-delivered-id') + 1] ?? '0-0',
  }));
}

/** A group that does not exist yet has been given nothing. */
async function lag(redis: Redis, stream: string, group: string): Promise<Lag> {
  const groups = await groupNames(redis, stream);
  const own = groups.find(({ name }) => name === group);
  const [unread] = await redis.xrange(stream, `(${own?.lastId ?? '0-0'}`, '+', 'COUNT', 1);
  const [pending, oldest] = own
    ? ((await redis.xpending(stream, group)) as [number, string | null])
    : [0, null];
  return {
    oldestUnreadAt: unread ? parseEntryId(unread[0]).ms : null,
    pending,
    oldestPendingAt: oldest === null ? null : parseEntryId(oldest).ms,
  };
}
