/** The table of counters: totals with a limit that are forgotten after a while. Synchronous. */
import type { DatabaseSync, StatementSync } from 'node:sqlite';

export class CounterTable {
  readonly #now: () => number;
  readonly #forget: StatementSync;
  readonly #reserve: StatementSync;
  readonly #settle: StatementSync;
  readonly #total: StatementSync;

  constructor(database: DatabaseSync, now: () => number) {
    this.#now = now;
    this.#forget = database.prepare('DELETE FROM counters WHERE expires_at <= ?');
    this.#reserve = database.prepare(
      `INSERT INTO counters SELECT ?1, ?2, ?4 WHERE ?2 <= ?3
       ON CONFLICT DO UPDATE SET total = total + ?2 WHERE total + ?2 <= ?3`,
    );
    this.#settle = database.prepare('UPDATE counters SET total = total + ? WHERE name = ?');
    this.#total = database.prepare('SELECT total FROM counters WHERE name = ? AND expires_at > ?');
  }

  reserve(name: string, amount: number, limit: number, ttlMs: number): boolean {
    const now = this.#now();
    this.#forget.run(now);
    return this.#reserve.run(name, amount, limit, now + ttlMs).changes !== 0;
  }

  settle(name: string, difference: number): void {
    this.#settle.run(difference, name);
  }

  total(name: string): number {
    return Number(this.#total.get(name, this.#now())?.['total'] ?? 0);
  }
}
