/** The embedded store: one SQLite file, on a thread of its own. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Worker } from 'node:worker_threads';
import { ConsortError } from '../../contract/errors.ts';
import type {
  Counters,
  Delivery,
  Estimates,
  Leases,
  Ledger,
  LedgerEntry,
  Releases,
  Store,
  Tallies,
} from '../../contract/store.ts';
import { decodeEntry, decodeEstimates, encodeEntry, encodeEstimates, isWork } from '../entry.ts';
import type { StoreKind, StoreSettings } from '../options.ts';
import { decodeRelease, policyOf, storedRelease } from '../stored-release.ts';
import type { StoredDelivery, StoredEntry } from './ledger.ts';
import { Link, spawnThread } from './link.ts';

export const sqlite: StoreKind = {
  schemes: ['sqlite:'],
  open: (url, settings) => openSqlite(url.slice('sqlite:'.length).replace(/^\/\//, ''), settings),
};

/** Opens a file. `spawn` starts its thread; a test hands one in to be able to kill it. */
export async function openSqlite(
  file: string,
  settings: StoreSettings,
  spawn: (file: string) => Worker = spawnThread,
): Promise<Store> {
  const { onDown, onUp } = settings;
  const link = await Link.open({ spawn: () => spawn(file), onDown, onUp });
  return {
    kind: 'sqlite',
    ledger: ledgerOf(link, settings),
    tallies: talliesOf(link),
    estimates: estimatesOf(link),
    leases: leasesOf(link),
    counters: countersOf(link),
    releases: releasesOf(link),
    ping: () => ping(link, settings.timeoutMs),
    close: () => link.close(),
  };
}

async function ping(link: Link, timeoutMs: number): Promise<void> {
  const timer = new AbortController();
  const late = sleep(timeoutMs, true, { signal: timer.signal }).catch(() => false);
  try {
    if (await Promise.race([link.call('ping'), late])) {
      throw new ConsortError('store_unavailable', [`no answer within ${timeoutMs} ms`]);
    }
  } finally {
    timer.abort();
  }
}

function ledgerOf(link: Link, settings: StoreSettings): Ledger {
  return {
    append: (entries) => link.call('append', entries.map(store)),
    read: async (pool, after, count) =>
      decodeAll(await link.call('read', pool, after, count), (id) => settings.onSkipped(pool, id)),
    async follow(options) {
      const { pool, group } = options;
      const unread: string[] = [];
      const deliveries = decodeAll(await link.call('follow', options), (id) => {
        settings.onSkipped(pool, id);
        unread.push(id);
      });
      if (unread.length > 0) await link.call('acknowledge', pool, group, unread);
      return deliveries;
    },
    acknowledge: (pool, group, ids) => link.call('acknowledge', pool, group, ids),
    async outcome(id) {
      const entry = decodeEntry((await link.call('outcome', id)) ?? '');
      return entry?.kind === 'outcome' ? entry.outcome : undefined;
    },
    pools: () => link.call('pools'),
    trim: (beforeMs) => link.call('trim', beforeMs, Date.now() - settings.retentionMs),
    lag: (pool, group) => link.call('lag', pool, group),
    bury: (pool, group, id, reason) => link.call('bury', pool, group, id, reason),
    buried: (pool) => link.call('buried', pool),
  };
}

function store(entry: LedgerEntry): StoredEntry {
  return {
    pool: entry.pool,
    outcome: entry.kind === 'outcome' ? entry.outcome.id : null,
    work: isWork(entry),
    body: encodeEntry(entry),
  };
}

function decodeAll(stored: readonly StoredDelivery[], skip: (id: string) => void): Delivery[] {
  return stored.flatMap(({ id, body, deliveries }) => {
    const entry = decodeEntry(body);
    if (entry) return [{ id, entry, deliveries }];
    skip(id);
    return [];
  });
}

function talliesOf(link: Link): Tallies {
  return {
    apply: (event) => link.call('apply', event),
    keys: (filter) => link.call('keys', filter),
    read: (key) => link.call('sums', key),
  };
}

function estimatesOf(link: Link): Estimates {
  return {
    publish: (system, task, source, estimates, fence) =>
      link.call('publish', system, task, source, encodeEstimates(estimates), fence),
    query: async (filter) => (await link.call('estimates', filter)).flatMap(decodeEstimates),
  };
}

function leasesOf(link: Link): Leases {
  return {
    acquire: async (name, holder, ttlMs) => (await link.call('acquire', name, holder, ttlMs)) ?? undefined,
    release: (name, holder) => link.call('release', name, holder),
  };
}

function countersOf(link: Link): Counters {
  return {
    reserve: (name, amount, limit, ttlMs) => link.call('reserve', name, amount, limit, ttlMs),
    settle: (name, difference) => link.call('settle', name, difference),
    total: (name) => link.call('total', name),
  };
}

function releasesOf(link: Link): Releases {
  return {
    get: async (policy, version) => decodeRelease(await link.call('aRelease', policy, version)),
    list: async (policy) =>
      (await link.call('releases', policy ?? null)).flatMap((body) => decodeRelease(body) ?? []),
    policies: () => link.call('policies'),
    compareAndSet: async (changes) =>
      link.call('changeReleases', policyOf(changes), changes.map(storedRelease)),
    live: async (policy) => decodeRelease(await link.call('liveRelease', policy)),
  };
}
