/** The file: opened, migrated, and everything that can be done with it. Synchronous, so it lives on a thread. */
import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { migrate } from './schema.ts';
import { LedgerTables } from './ledger.ts';
import { CounterTable } from './counters.ts';
import { LeaseTable } from './leases.ts';
import { PlaceTable } from './places.ts';
import { ReleaseTable } from './releases.ts';
import { TallyTables } from './tallies.ts';
import { TurnTable } from './turns.ts';

/** How long another process may hold the file. */
const BUSY_MS = 5_000;
/** The write-ahead log is cut back to this after a checkpoint. */
const LOG_BYTES = 67_108_864;

export class Database {
  readonly ledger: LedgerTables;
  readonly tallies: TallyTables;
  readonly leases: LeaseTable;
  readonly counters: CounterTable;
  readonly places: PlaceTable;
  readonly releases: ReleaseTable;
  readonly turns: TurnTable;
  readonly #database: DatabaseSync;
  readonly #publish: StatementSync;
  readonly #estimates: StatementSync;
  readonly #version: StatementSync;

  /** Opens the file, making it and its directory when they are missing. */
  constructor(file: string, now: () => number) {
    if (file !== ':memory:') mkdirSync(dirname(file), { recursive: true });
    const database = new DatabaseSync(file, { timeout: BUSY_MS });
    try {
      database.exec(
        `PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = ${LOG_BYTES}`,
      );
      migrate(database);
      this.ledger = new LedgerTables(database, now);
      this.tallies = new TallyTables(database, now);
      this.leases = new LeaseTable(database, now);
      this.counters = new CounterTable(database, now);
      this.places = new PlaceTable(database, now);
      this.releases = new ReleaseTable(database);
      this.turns = new TurnTable(database, now);
      this.#publish = database.prepare(
        `INSERT INTO estimates VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE
         SET body = excluded.body, fence = excluded.fence WHERE excluded.fence >= estimates.fence`,
      );
      this.#estimates = database.prepare(
        'SELECT body FROM estimates WHERE (?1 IS NULL OR system = ?1) AND (?2 IS NULL OR task = ?2)',
      );
      this.#version = database.prepare('PRAGMA data_version');
    } catch (error) {
      database.close();
      throw error;
    }
    this.#database = database;
  }

  /** Replaces what is published, unless a holder of a later lease has; no estimates at all are an empty list. */
  publish(system: string, task: string, source: string, body: string, fence: number): boolean {
    return this.#publish.run(system, task, source, body, fence).changes !== 0;
  }

  estimates(filter: { readonly system?: string; readonly task?: string }): string[] {
    return this.#estimates.all(filter.system ?? null, filter.task ?? null).map((row) => String(row['body']));
  }

  /** Changes whenever another connection has written. */
  version(): number {
    return Number(this.#version.get()?.['data_version']);
  }

  begin(): void {
    if (!this.#database.isTransaction) this.#database.exec('BEGIN IMMEDIATE');
  }

  commit(): void {
    if (this.#database.isTransaction) this.#database.exec('COMMIT');
  }

  rollback(): void {
    if (this.#database.isTransaction) this.#database.exec('ROLLBACK');
  }

  close(): void {
    this.#database.close();
  }
}
