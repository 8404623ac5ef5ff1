/** The table of places: who has one of so many, and until when. Synchronous. */
import type { DatabaseSync, StatementSync } from 'node:sqlite';

export class PlaceTable {
  readonly #now: () => number;
  readonly #forget: StatementSync;
  readonly #take: StatementSync;
  readonly #leave: StatementSync;

  constructor(database: DatabaseSync, now: () => number) {
    this.#now = now;
    this.#forget = database.prepare('DELETE FROM places WHERE expires_at <= ?');
    this.#take = database.prepare(
      `INSERT INTO places SELECT ?1, ?2, ?4
         WHERE (SELECT count(*) FROM places WHERE name = ?1 AND holder <> ?2) < ?3
       ON CONFLICT DO UPDATE SET expires_at = ?4`,
    );
    this.#leave = database.prepare('DELETE FROM places WHERE name = ? AND holder = ?');
  }

  take(name: string, holder: string, most: number, ttlMs: number): boolean {
    const now = this.#now();
    this.#forget.run(now);
    return this.#take.run(name, holder, most, now + ttlMs).changes !== 0;
  }

  leave(name: string, holder: string): void {
    this.#leave.run(name, holder);
  }
}
