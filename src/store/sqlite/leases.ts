/** The table of leases: one holder each, a token that rises with every new one. Synchronous. */
import type { DatabaseSync, StatementSync } from 'node:sqlite';

export class LeaseTable {
  readonly #now: () => number;
  readonly #take: StatementSync;
  readonly #release: StatementSync;

  constructor(database: DatabaseSync, now: () => number) {
    this.#now = now;
    // The holder renews under its token; another may take an expired lease, under the next one.
    this.#take = database.prepare(
      `INSERT INTO leases VALUES (?1, ?2, 1, ?3 + ?4) ON CONFLICT DO UPDATE SET
         token = token + CASE WHEN holder = ?2 AND expires_at > ?3 THEN 0 ELSE 1 END,
         holder = ?2, expires_at = ?3 + ?4
       WHERE holder = ?2 OR expires_at <= ?3 RETURNING token`,
    );
    this.#release = database.prepare('UPDATE leases SET expires_at = 0 WHERE name = ? AND holder = ?');
  }

  /** The token, or null while another holds the lease. */
  acquire(name: string, holder: string, ttlMs: number): number | null {
    const row = this.#take.get(name, holder, this.#now(), ttlMs);
    return row ? Number(row['token']) : null;
  }

  release(name: string, holder: string): void {
    this.#release.run(name, holder);
  }
}
