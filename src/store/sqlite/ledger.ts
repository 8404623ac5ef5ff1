/** The ledger's tables: entries by pool, and consumer groups as Redis streams have them. Synchronous. */
import type { DatabaseSync, SQLOutputValue } from 'node:sqlite';
import { type Buried, type FollowOptions, type Lag, MOST_BURIED } from '../../contract/store.ts';
import { type EntryId, formatEntryId, nextEntryId, parseEntryId } from '../entry-id.ts';

/** An entry on its way to the table; `outcome` is the id of the outcome that it holds. */
export interface StoredEntry {
  readonly pool: string;
  readonly outcome: string | null;
  /** Whether consumer groups are given it. */
  readonly work: boolean;
  readonly body: string;
}

/** An entry on its way from the table. */
export interface StoredDelivery {
  readonly id: string;
  readonly body: string;
  readonly deliveries: number;
}

type Row = Record<string, SQLOutputValue>;

const idOf = (row: Row): EntryId => ({ ms: Number(row['ms']), seq: Number(row['seq']) });

function delivery(row: Row, deliveries: number): StoredDelivery {
  return { id: formatEntryId(idOf(row)), body: String(row['body']), deliveries };
}

export class LedgerTables {
  readonly #now: () => number;
  readonly #sql: ReturnType<typeof prepare>;

  constructor(database: DatabaseSync, now: () => number) {
    this.#now = now;
    this.#sql = prepare(database);
  }

  append(entries: readonly StoredEntry[]): void {
    const lastIds = new Map<string, EntryId>();
    for (const { pool, outcome, work, body } of entries) {
      const id = nextEntryId(lastIds.get(pool) ?? this.#lastId(pool), this.#now());
      const { changes } = this.#sql.insert.run(pool, id.ms, id.seq, outcome, body, Number(work));
      if (changes !== 0) lastIds.set(pool, id);
    }
    for (const [pool, { ms, seq }] of lastIds) this.#sql.setLastId.run(pool, ms, seq);
  }

  #lastId(pool: string): EntryId {
    const last = this.#sql.lastId.get(pool);
    return last ? idOf(last) : { ms: 0, seq: 0 };
  }

  read(pool: string, after: string, count: number): StoredDelivery[] {
    const { ms, seq } = parseEntryId(after);
    return this.#sql.after.all(pool, ms, seq, count).map((row) => delivery(row, 0));
  }

  outcome(id: string): string | undefined {
    const row = this.#sql.outcome.get(id);
    return row && String(row['body']);
  }

  pools(): string[] {
    return this.#sql.pools.all().map((row) => String(row['pool']));
  }

  /** Whether `take` would write anything: lets a waiting consumer look without the write lock. */
  hasWork({ pool, group, claimIdleMs }: FollowOptions): boolean {
    const last = this.#sql.group.get(pool, group);
    if (!last) return true;
    if (this.#sql.idle.get(pool, group, this.#now() - claimIdleMs, 1)) return true;
    const { ms, seq } = idOf(last);
    return this.#sql.workAfter.get(pool, ms, seq, 1) !== undefined;
  }

  /** The next entries of a group without waiting: those left behind by a consumer, else new ones. */
  take(options: FollowOptions): StoredDelivery[] {
    this.#sql.addGroup.run(options.pool, options.group);
    const claimed = this.#claim(options);
    return claimed.length > 0 ? claimed : this.#deliver(options);
  }

  #claim({ pool, group, consumer, count, claimIdleMs }: FollowOptions): StoredDelivery[] {
    const now = this.#now();
    const claimed: StoredDelivery[] = [];
    for (const row of this.#sql.idle.all(pool, group, now - claimIdleMs, count)) {
      const { ms, seq } = idOf(row);
      const entry = this.#sql.entry.get(pool, ms, seq);
      if (!entry) {
        this.#sql.acknowledge.run(pool, group, ms, seq);
        continue;
      }
      this.#sql.claim.run(consumer, now, pool, group, ms, seq);
      claimed.push(delivery(entry, Number(row['deliveries']) + 1));
    }
    return claimed;
  }

  #deliver({ pool, group, consumer, count }: FollowOptions): StoredDelivery[] {
    const last = this.#sql.group.get(pool, group);
    const { ms, seq } = last ? idOf(last) : { ms: 0, seq: 0 };
    const rows = this.#sql.workAfter.all(pool, ms, seq, count);
    for (const row of rows) {
      const id = idOf(row);
      this.#sql.deliver.run(pool, group, id.ms, id.seq, consumer, this.#now());
    }
    const newest = rows.at(-1);
    if (newest) this.#sql.advance.run(idOf(newest).ms, idOf(newest).seq, pool, group);
    return rows.map((row) => delivery(row, 1));
  }

  acknowledge(pool: string, group: string, ids: readonly string[]): void {
    for (const id of ids) {
      const { ms, seq } = parseEntryId(id);
      this.#sql.acknowledge.run(pool, group, ms, seq);
    }
  }

  trim(beforeMs: number): number {
    return Number(this.#sql.trim.run(beforeMs).changes);
  }

  /** A group that does not exist yet has been given nothing. */
  lag(pool: string, group: string): Lag {
    const last = this.#sql.group.get(pool, group);
    const { ms, seq } = last ? idOf(last) : { ms: 0, seq: 0 };
    const unread = this.#sql.workAfter.get(pool, ms, seq, 1);
    const held = this.#sql.held.get(pool, group);
    const oldest = held?.['oldest'];
    return {
      oldestUnreadAt: unread ? idOf(unread).ms : null,
      pending: Number(held?.['count'] ?? 0),
      oldestPendingAt: typeof oldest === 'number' ? oldest : null,
    };
  }

  bury(pool: string, group: string, id: string, reason: string): void {
    const { ms, seq } = parseEntryId(id);
    this.#sql.bury.run(pool, ms, seq, reason);
    this.#sql.exhume.run(pool, pool, MOST_BURIED);
    this.acknowledge(pool, group, [id]);
  }

  buried(pool: string): Buried[] {
    return this.#sql.buried
      .all(pool)
      .map((row) => ({ id: formatEntryId(idOf(row)), reason: String(row['reason']) }));
  }
}

/** One object of statements, prepared once. */
function prepare(database: DatabaseSync) {
  const sql = (text: string) => database.prepare(text);
  return {
    lastId: sql('SELECT last_ms AS ms, last_seq AS seq FROM pools WHERE pool = ?'),
    setLastId: sql('INSERT OR REPLACE INTO pools VALUES (?, ?, ?)'),
    insert: sql(
      `INSERT INTO entries (pool, ms, seq, outcome, body, work) VALUES (?, ?, ?, ?, ?, ?)
       ON CONFLICT (outcome) WHERE outcome IS NOT NULL DO NOTHING`,
    ),
    entry: sql('SELECT ms, seq, body FROM entries WHERE pool = ? AND ms = ? AND seq = ?'),
    after: sql(
      'SELECT ms, seq, body FROM entries WHERE pool = ? AND (ms, seq) > (?, ?) ORDER BY ms, seq LIMIT ?',
    ),
    workAfter: sql(
      `SELECT ms, seq, body FROM entries
       WHERE pool = ? AND (ms, seq) > (?, ?) AND work = 1 ORDER BY ms, seq LIMIT ?`,
    ),
    outcome: sql('SELECT body FROM entries WHERE outcome = ?'),
    pools: sql('SELECT pool FROM pools ORDER BY pool'),
    group: sql('SELECT last_ms AS ms, last_seq AS seq FROM groups WHERE pool = ? AND name = ?'),
    addGroup: sql('INSERT OR IGNORE INTO groups VALUES (?, ?, 0, 0)'),
    advance: sql('UPDATE groups SET last_ms = ?, last_seq = ? WHERE pool = ? AND name = ?'),
    idle: sql(
      `SELECT ms, seq, deliveries FROM pending
       WHERE pool = ? AND name = ? AND delivered_at <= ? ORDER BY ms, seq LIMIT ?`,
    ),
    claim: sql(
      `UPDATE pending SET consumer = ?, delivered_at = ?, deliveries = deliveries + 1
       WHERE pool = ? AND name = ? AND ms = ? AND seq = ?`,
    ),
    deliver: sql('INSERT OR REPLACE INTO pending VALUES (?, ?, ?, ?, ?, ?, 1)'),
    acknowledge: sql('DELETE FROM pending WHERE pool = ? AND name = ? AND ms = ? AND seq = ?'),
    held: sql('SELECT count(*) AS count, min(ms) AS oldest FROM pending WHERE pool = ? AND name = ?'),
    bury: sql('INSERT INTO buried (pool, ms, seq, reason) VALUES (?, ?, ?, ?)'),
    exhume: sql(
      `DELETE FROM buried WHERE pool = ? AND id <=
       (SELECT id FROM buried WHERE pool = ? ORDER BY id DESC LIMIT 1 OFFSET ?)`,
    ),
    buried: sql('SELECT ms, seq, reason FROM buried WHERE pool = ? ORDER BY id'),
    trim: sql(
      `DELETE FROM entries WHERE ms < ?
       AND (work = 0 OR NOT EXISTS (SELECT 1 FROM groups g WHERE g.pool = entries.pool
         AND (g.last_ms, g.last_seq) < (entries.ms, entries.seq)))
       AND NOT EXISTS (SELECT 1 FROM pending p WHERE p.pool = entries.pool
         AND p.ms = entries.ms AND p.seq = entries.seq)`,
    ),
  };
}
