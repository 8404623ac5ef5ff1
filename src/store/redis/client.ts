/** The shared store: Redis 7 or later. */
import type {
  Counters,
  Estimates,
  Leases,
  Places,
  Store,
  Tallies,
  TallyEvent,
  Turns,
} from '../../contract/store.ts';
import { decodeEstimates, encodeEstimates } from '../entry.ts';
import type { StoreKind, StoreSettings } from '../options.ts';
import { parseTallyName, tallyName } from '../tally-name.ts';
import { Connection } from './connection.ts';
import {
  counterKey,
  estimatesField,
  estimatesKey,
  fencesKey,
  joinKey,
  leaseKey,
  leaseTokenKey,
  namesKey,
  placesKey,
  POOLS,
  streamKey,
  sumsKey,
  SYSTEMS,
  TURNS,
  TURNS_END,
} from './keys.ts';
import { redisLedger } from './ledger.ts';
import { redisReleases } from './releases.ts';

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
      leases: leasesOf(connection),
      counters: countersOf(connection),
      places: placesOf(connection),
      releases: redisReleases(connection),
      turns: turnsOf(connection),
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
    event.group ?? '',
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
    publish(system, task, source, estimates, fence) {
      const keys = [estimatesKey(system), fencesKey(system)];
      const body = estimates.length === 0 ? '' : encodeEstimates(estimates);
      return connection.run(async (server) => {
        await server.sadd(SYSTEMS, system);
        return (await server.consortPublish(...keys, estimatesField(task, source), body, fence)) === 1;
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

function leasesOf(connection: Connection): Leases {
  return {
    async acquire(name, holder, ttlMs) {
      const keys = [leaseKey(name), leaseTokenKey(name)];
      const token = Number(await connection.run((server) => server.consortLease(...keys, holder, ttlMs)));
      return token === 0 ? undefined : token;
    },
    async release(name, holder) {
      await connection.run((server) => server.consortRelease(leaseKey(name), holder));
    },
  };
}

function countersOf(connection: Connection): Counters {
  return {
    reserve: (name, amount, limit, ttlMs) =>
      connection.run(
        async (server) => (await server.consortReserve(counterKey(name), amount, limit, ttlMs)) === 1,
      ),
    async settle(name, difference) {
      await connection.run((server) => server.consortSettle(counterKey(name), difference));
    },
    total: async (name) => Number((await connection.run((server) => server.get(counterKey(name)))) ?? 0),
  };
}

function placesOf(connection: Connection): Places {
  return {
    take: (name, holder, most, ttlMs) =>
      connection.run(
        async (server) => (await server.consortTake(placesKey(name), holder, most, ttlMs)) === 1,
      ),
    async leave(name, holder) {
      await connection.run((server) => server.zrem(placesKey(name), holder));
    },
  };
}

function turnsOf(connection: Connection): Turns {
  return {
    async keep(name, text, ttlMs, most) {
      await connection.run((server) => server.consortKeep(TURNS, TURNS_END, name, text, ttlMs, most));
    },
    async find(name) {
      const found = await connection.run((server) => server.consortFind(TURNS, TURNS_END, name));
      return typeof found === 'string' ? found : undefined;
    },
  };
}
