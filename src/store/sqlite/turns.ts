/** The table of turns: texts by name that are forgotten after a while. Synchronous. */
import type { DatabaseSync, StatementSync } from 'node:sqlite';

export class TurnTable {
  readonly #now: () => number;
  readonly #keep: StatementSync;
  readonly #forget: StatementSync;
  readonly #bound: StatementSync;
  readonly #find: StatementSync;

  constructor(database: DatabaseSync, now: () => number) {
    this.#now = now;
    this.#keep = database.prepare(
      `INSERT INTO turns (name, body, expires_at) VALUES (?, ?, ?)
       ON CONFLICT (name) DO UPDATE SET body = excluded.body, expires_at = excluded.expires_at`,
    );
    this.#forget = database.prepare('DELETE FROM turns WHERE expires_at <= ?');
    this.#bound = database.prepare(
      'DELETE FROM turns WHERE id IN (SELECT id FROM turns ORDER BY expires_at DESC, id DESC LIMIT -1 OFFSET ?)',
    );
    this.#find = database.prepare('SELECT body FROM turns WHERE name = ? AND expires_at > ?');
  }

  keep(name: string, text: string, ttlMs: number, most: number): void {
    const now = this.#now();
    this.#forget.run(now);
    this.#keep.run(name, text, now + ttlMs);
    this.#bound.run(most);
  }

  find(name: string): string | undefined {
    const row = this.#find.get(name, this.#now());
    return row && String(row['body']);
  }
}
