/** The shared store: Redis 7 or later. */
import type { Estimates, Store, Tallies, TallyEvent } from '../../contract/store.ts';
import { decodeEstimates, encodeEstimates } from '../entry.ts';
import type { StoreKind, StoreSettings } from '../options.ts';
import { parseTallyName, tallyName } from '../tally-name.ts';
import { Connection } from './connection.ts';
import {
  estimatesField,
  estimatesKey,
  joinKey,
  namesKey,
  POOLS,
  streamKey,
  sumsKey,
  SYSTEMS,
} from './keys.ts';
import { redisLedger } from './ledger.ts';

/** A join outlives the last reward by this much more than outcomes are kept. */
const JOIN_MARGIN_MS = 86_400_000;

export const redis: StoreKind = {
  schemes: ['redis:', 'rediss:'],
  async open(url, settings): Promise<Store> {
    const connection = await Connection.open(url, settings);
    return {
      kind: 'redis',
      ledger: redisLedger(connection, settings),
      tallies: talliesOf(connection, settings),
      estimates: estimatesOf(connection),
      ping: async () => void (await connection.run((server) => server.ping())),
      close: () => connection.close(),
    };
  },
};

function talliesOf(connection: Connection, settings: StoreSettings): Tallies {
  const life = settings.retentionMs + JOIN_MARGIN_MS;
  return {
    async apply(event) {
      let answer = await apply(connection, event, life);
      if (answer.startsWith('bucket:')) {
        const bucket = answer.slice('bucket:'.length);
        answer = await apply(connection, { ...event, key: { ...event.key, bucket } }, life);
      }
      if (answer === 'named') await connection.run((server) => server.sadd(POOLS, event.key.pool));
      return answer === 'revised' || answer === 'duplicate' ? answer : 'new';
    },
    async keys({ pool, system }) {
      const pools = pool === undefined ? await connection.run((server) => server.smembers(POOLS)) : [pool];
      const keys = await Promise.all(pools.map((id) => keysOf(connection, id)));
      return keys.flat().filter((key) => system === undefined || key.system === system);
    },
    async read(key) {
      const fields = await connection.run((server) => server.hgetall(sumsKey(key)));
      const sums = Object.entries(fields).map(([field, value]) => [field, BigInt(value)] as const);
      return new Map(sums.filter(([, value]) => value !== 0n));
    },
  };
}

async function apply(connection: Connection, event: TallyEvent, life: number): Promise<string> {
  const { key, mask, n, replicate, reward, design } = event;
  const keys = [joinKey(key, event.promptInstance), sumsKey(key), streamKey(key.pool), namesKey(key.pool)];
  const value = reward ?? 'NA';
  const args = [
    event.group,
    event.entryId,
    mask,
    n,
    replicate,
    value,
    life,
    design,
    key.bucket,
    tallyName(key),
  ];
  return String(await connection.run((server) => server.consortApply(...keys, ...args)));
}

async function keysOf(connection: Connection, pool: string) {
  const names = await connection.run((server) => server.smembers(namesKey(pool)));
  return names.toSorted().map((name) => parseTallyName(pool, name));
}

function estimatesOf(connection: Connection): Estimates {
  return {
    async publish(system, task, source, estimates) {
      const field = estimatesField(task, source);
      await connection.run(async (server) => {
        if (estimates.length === 0) return void (await server.hdel(estimatesKey(system), field));
        await server.sadd(SYSTEMS, system);
        await server.hset(estimatesKey(system), field, encodeEstimates(estimates));
      });
    },
    async query({ system, task }) {
      const systems =
        system === undefined ? await connection.run((server) => server.smembers(SYSTEMS)) : [system];
      const tables = await Promise.all(
        systems.toSorted().map((id) => connection.run((server) => server.hgetall(estimatesKey(id)))),
      );
      const all = tables.flatMap((table) => Object.values(table).flatMap(decodeEstimates));
      return all.filter((estimate) => task === undefined || estimate.task === task);
    },
  };
}
