/**
 * The thread's desk: takes batches of calls, runs the writes of a batch in one transaction, and keeps consumers that
 * wait for an entry. A waiting consumer is looked after when something was appended here, and ten times a second for
 * what other processes append.
 */
import type { FollowOptions } from '../../contract/store.ts';
import { ConsortError } from '../../contract/errors.ts';
import type { Database } from './database.ts';
import type { Calls, Failure, Method, Reply, Request } from './messages.ts';

const POLL_MS = 100;

/** SQLite's result codes for which the same call may succeed later: busy, locked, out of memory or space, I/O. */
const TRANSIENT: ReadonlySet<number> = new Set([5, 6, 7, 10, 13, 14, 15]);

const WRITES: ReadonlySet<Method> = new Set([
  'append',
  'acknowledge',
  'apply',
  'publish',
  'trim',
  'bury',
  'acquire',
  'release',
  'reserve',
  'settle',
  'take',
  'leave',
  'changeReleases',
  'keepTurn',
]);

interface Waiter {
  readonly id: number;
  readonly options: FollowOptions;
  readonly until: number;
}

export class Desk {
  readonly #database: Database;
  readonly #send: (replies: Reply[]) => void;
  readonly #now: () => number;
  readonly #calls: Calls;
  readonly #waiters = new Map<number, Waiter>();
  #timer: NodeJS.Timeout | undefined;

  constructor(database: Database, send: (replies: Reply[]) => void, now: () => number) {
    this.#database = database;
    this.#send = send;
    this.#now = now;
    this.#calls = callsOf(database);
  }

  /** Answers a batch; what must wait is answered later. */
  handle(requests: readonly Request[]): void {
    const replies: Reply[] = [];
    const calls = requests.filter(({ method }) => method !== 'follow');
    try {
      replies.push(...calls.map((request) => this.#run(request)));
      this.#database.commit();
    } catch {
      // One call failed and took the transaction with it: each again for itself, so that only its own caller hears.
      this.#database.rollback();
      replies.length = 0;
      replies.push(...calls.map((request) => this.#runAlone(request)));
    }
    for (const request of requests) if (request.method === 'follow') this.#wait(request);
    const hasGrown = calls.some(({ method }) => method === 'append');
    replies.push(...this.#serveWaiters(hasGrown ? undefined : requests));
    if (replies.length > 0) this.#send(replies);
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#waiters.clear();
    this.#database.close();
  }

  #run(request: Request): Reply {
    if (WRITES.has(request.method)) this.#database.begin();
    const call = this.#calls[request.method] as (...args: readonly unknown[]) => unknown;
    return { id: request.id, value: call(...request.args) };
  }

  #runAlone(request: Request): Reply {
    try {
      const reply = this.#run(request);
      this.#database.commit();
      return reply;
    } catch (error) {
      this.#database.rollback();
      return { id: request.id, failure: failureOf(error) };
    }
  }

  #wait(request: Request): void {
    const [options] = request.args as Parameters<Calls['follow']>;
    this.#waiters.set(request.id, { id: request.id, options, until: this.#now() + options.blockMs });
  }

  /** Answers those waiters (of the given requests, or all) that have something to take or have waited enough. */
  #serveWaiters(only?: readonly Request[]): Reply[] {
    const replies: Reply[] = [];
    const waiters = only
      ? only.flatMap(({ id }) => this.#waiters.get(id) ?? [])
      : [...this.#waiters.values()];
    for (const waiter of waiters) {
      const reply = this.#serve(waiter);
      if (!reply) continue;
      this.#waiters.delete(waiter.id);
      replies.push(reply);
    }
    this.#poll();
    return replies;
  }

  #serve({ id, options, until }: Waiter): Reply | undefined {
    const isOver = this.#now() >= until;
    try {
      if (!this.#database.ledger.hasWork(options)) return isOver ? { id, value: [] } : undefined;
    } catch (error) {
      return { id, failure: failureOf(error) };
    }
    const reply = this.#runAlone({ id, method: 'follow', args: [options] });
    const isEmpty = 'value' in reply && Array.isArray(reply.value) && reply.value.length === 0;
    return isEmpty && !isOver ? undefined : reply;
  }

  #poll(): void {
    if (this.#timer || this.#waiters.size === 0) return;
    const soonest = Math.min(...[...this.#waiters.values()].map(({ until }) => until - this.#now()));
    this.#timer = setTimeout(() => this.#tick(), Math.max(1, Math.min(POLL_MS, soonest)));
  }

  #tick(): void {
    this.#timer = undefined;
    const replies = this.#serveWaiters();
    if (replies.length > 0) this.#send(replies);
  }
}

function callsOf(database: Database): Calls {
  const { ledger, tallies, leases, counters, places, releases, turns } = database;
  return {
    ping: () => void database.version(),
    append: (entries, plans) => ledger.append(entries, plans),
    read: (pool, after, count) => ledger.read(pool, after, count),
    follow: (options) => {
      database.begin();
      return ledger.take(options);
    },
    acknowledge: (pool, group, ids) => ledger.acknowledge(pool, group, ids),
    outcome: (id) => ledger.outcome(id),
    pools: () => ledger.pools(),
    trim: (beforeMs, forgetBeforeMs) => {
      tallies.trim(forgetBeforeMs);
      return ledger.trim(beforeMs);
    },
    apply: (event) => tallies.apply(event),
    keys: (filter) => tallies.keys(filter),
    sums: (key) => tallies.read(key),
    lag: (pool, group) => ledger.lag(pool, group),
    bury: (pool, group, id, reason) => ledger.bury(pool, group, id, reason),
    buried: (pool) => ledger.buried(pool),
    acquire: (name, holder, ttlMs) => leases.acquire(name, holder, ttlMs),
    release: (name, holder) => leases.release(name, holder),
    reserve: (...args) => counters.reserve(...args),
    settle: (name, difference) => counters.settle(name, difference),
    total: (name) => counters.total(name),
    take: (...args) => places.take(...args),
    leave: (name, holder) => places.leave(name, holder),
    aRelease: (policy, version) => releases.release(policy, version),
    releases: (policy) => releases.releases(policy),
    policies: () => releases.policies(),
    liveRelease: (policy) => releases.live(policy),
    changeReleases: (policy, changes) => releases.change(policy, changes),
    keepTurn: (...args) => turns.keep(...args),
    findTurn: (name) => turns.find(name),
    publish: (...args) => database.publish(...args),
    estimates: (filter) => database.estimates(filter),
    close: () => {},
  };
}

/** What went wrong, in a form that survives the port. */
export function failureOf(error: unknown): Failure {
  const detail = error instanceof Error ? error.message : String(error);
  if (ConsortError.is(error)) return { unavailable: error.code === 'store_unavailable', detail };
  const code = error instanceof Error && 'errcode' in error ? Number(error.errcode) & 0xff : 0;
  return { unavailable: TRANSIENT.has(code), detail };
}
