/** The ledger's tables: entries by pool, and consumer groups as Redis streams have them. Synchronous. */
import type { DatabaseSync, SQLOutputValue } from 'node:sqlite';
import { type Buried, type FollowOptions, type Lag, MOST_BURIED } from '../../contract/store.ts';
import type { SharedPlan } from '../shared-plan.ts';
import { type EntryId, formatEntryId, nextEntryId, parseEntryId } from '../entry-id.ts';

/** An entry on its way to the table; `outcome` is the id of the outcome that it holds. */
export interface StoredEntry {
  readonly pool: string;
  readonly outcome: string | null;
  /** Whether consumer groups are given it. */
  readonly work: boolean;
  readonly body: string;
  /** Which of the plans that travel with it. */
  readonly plan: number | null;
}

/** An entry's text in two parts: the other is what its plan shares. */
export interface StoredText {
  readonly body: string;
  readonly plan: string | null;
}

/** An entry on its way from the table. */
export interface StoredDelivery extends StoredText {
  readonly id: string;
  readonly deliveries: number;
}

type Row = Record<string, SQLOutputValue>;

const idOf = (row: Row): EntryId => ({ ms: Number(row['ms']), seq: Number(row['seq']) });

function textOf({ body, plan }: Row): StoredText {
  return { body: String(body), plan: typeof plan === 'string' ? plan : null };
}

function delivery(row: Row, deliveries: number): StoredDelivery {
  return { id: formatEntryId(idOf(row)), ...textOf(row), deliveries };
}

export class LedgerTables {
  readonly #now: () => number;
  readonly #sql: ReturnType<typeof prepare>;

  constructor(database: DatabaseSync, now: () => number) {
    this.#now = now;
    this.#sql = prepare(database);
  }

  append(entries: readonly StoredEntry[], plans: readonly SharedPlan[]): void {
    const lastIds = new Map<string, EntryId>();
    const planRows = plans.map((shared) => this.#planRow(shared));
    const used = new Map<number, number>();
    for (const { pool, outcome, work, body, plan } of entries) {
      const id = nextEntryId(lastIds.get(pool) ?? this.#lastId(pool), this.#now());
      const row = plan === null ? null : (planRows[plan] ?? null);
      const { changes } = this.#sql.insert.run(pool, id.ms, id.seq, outcome, body, Number(work), row);
      if (changes === 0) continue;
      lastIds.set(pool, id);
      if (row !== null) used.set(row, id.ms);
    }
    for (const [pool, { ms, seq }] of lastIds) this.#sql.setLastId.run(pool, ms, seq);
    for (const [row, ms] of used) this.#sql.usePlan.run(ms, row);
  }

  #planRow({ hash, text }: SharedPlan): number {
    const known = this.#sql.plan.get(hash);
    return Number(known?.['id'] ?? this.#sql.addPlan.run(hash, text).lastInsertRowid);
  }

  #lastId(pool: string): EntryId {
    const last = this.#sql.lastId.get(pool);
    return last ? idOf(last) : { ms: 0, seq: 0 };
  }

  read(pool: string, after: string, count: number): StoredDelivery[] {
    const { ms, seq } = parseEntryId(after);
    return this.#sql.after.all(pool, ms, seq, count).map((row) => delivery(row, 0));
  }

  outcome(id: string): StoredText | undefined {
    const row = this.#sql.outcome.get(id);
    return row && textOf(row);
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
    const { changes } = this.#sql.trim.run(beforeMs);
    this.#sql.trimPlans.run();
    return Number(changes);
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

/** Entries with the text of their plans. */
const ENTRY = `
  SELECT ms, seq, entries.body, plans.body AS plan FROM entries LEFT JOIN plans ON plans.id = entries.plan`;

/** One object of statements, prepared once. */
function prepare(database: DatabaseSync) {
  const sql = (text: string) => database.prepare(text);
  return {
    lastId: sql('SELECT last_ms AS ms, last_seq AS seq FROM pools WHERE pool = ?'),
    setLastId: sql('INSERT OR REPLACE INTO pools VALUES (?, ?, ?)'),
    insert: sql(
      `INSERT INTO entries (pool, ms, seq, outcome, body, work, plan) VALUES (?, ?, ?, ?, ?, ?, ?)
       ON CONFLICT (outcome) WHERE outcome IS NOT NULL DO NOTHING`,
    ),
    plan: sql('SELECT id FROM plans WHERE hash = ?'),
    addPlan: sql('INSERT INTO plans (hash, used_ms, body) VALUES (?, 0, ?)'),
    usePlan: sql('UPDATE plans SET used_ms = max(used_ms, ?) WHERE id = ?'),
    entry: sql(`${ENTRY} WHERE pool = ? AND ms = ? AND seq = ?`),
    after: sql(`${ENTRY} WHERE pool = ? AND (ms, seq) > (?, ?) ORDER BY ms, seq LIMIT ?`),
    workAfter: sql(`${ENTRY} WHERE pool = ? AND (ms, seq) > (?, ?) AND work = 1 ORDER BY ms, seq LIMIT ?`),
    outcome: sql(`${ENTRY} WHERE outcome = ?`),
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
    // No entry is left that was appended when a plan was last used, or before.
    trimPlans: sql(
      `DELETE FROM plans WHERE used_ms < coalesce((SELECT min(oldest) FROM
       (SELECT (SELECT min(ms) FROM entries WHERE entries.pool = pools.pool) AS oldest FROM pools)), used_ms + 1)`,
    ),
  };
}
