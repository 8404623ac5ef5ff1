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
  Places,
  Releases,
  Store,
  Tallies,
  Turns,
} from '../../contract/store.ts';
import { decodeEntry, decodeEstimates, encodeEntry, encodeEstimates, isWork } from '../entry.ts';
import type { StoreKind, StoreSettings } from '../options.ts';
import { PlanList, type SharedPlan } from '../shared-plan.ts';
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
    places: placesOf(link),
    releases: releasesOf(link),
    turns: turnsOf(link),
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
    append(entries) {
      const { stored, plans } = encodeAll(entries);
      return link.call('append', stored, plans);
    },
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
      const found = await link.call('outcome', id);
      const entry = found && decodeEntry(found.body, found.plan);
      return entry?.kind === 'outcome' ? entry.outcome : undefined;
    },
    pools: () => link.call('pools'),
    trim: (beforeMs) => link.call('trim', beforeMs, Date.now() - settings.retentionMs),
    lag: (pool, group) => link.call('lag', pool, group),
    bury: (pool, group, id, reason) => link.call('bury', pool, group, id, reason),
    buried: (pool) => link.call('buried', pool),
  };
}

/** Entries for the thread; what many plans share travels once. */
function encodeAll(entries: readonly LedgerEntry[]): { stored: StoredEntry[]; plans: SharedPlan[] } {
  const plans = new PlanList();
  const stored = entries.map((entry) => {
    const { body, plan } = encodeEntry(entry);
    const outcome = entry.kind === 'outcome' ? entry.outcome.id : null;
    return { pool: entry.pool, outcome, work: isWork(entry), body, plan: plan ? plans.add(plan) : null };
  });
  return { stored, plans: plans.all };
}

function decodeAll(stored: readonly StoredDelivery[], skip: (id: string) => void): Delivery[] {
  return stored.flatMap(({ id, body, plan, deliveries }) => {
    const entry = decodeEntry(body, plan);
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

function placesOf(link: Link): Places {
  return {
    take: (name, holder, most, ttlMs) => link.call('take', name, holder, most, ttlMs),
    leave: (name, holder) => link.call('leave', name, holder),
  };
}

function turnsOf(link: Link): Turns {
  return {
    keep: (name, text, ttlMs, most) => link.call('keepTurn', name, text, ttlMs, most),
    find: (name) => link.call('findTurn', name),
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
