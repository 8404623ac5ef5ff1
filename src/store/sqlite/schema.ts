/** The tables, as migrations in order; `PRAGMA user_version` counts those that a file has seen. */
import type { DatabaseSync } from 'node:sqlite';
import { ConsortError } from '../../contract/errors.ts';

/** Never edit one that was released: add the next. Columns are explained in docs/reference/data-model.md. */
const MIGRATIONS: readonly string[] = [
  `
  CREATE TABLE pools (pool TEXT PRIMARY KEY, last_ms INTEGER NOT NULL, last_seq INTEGER NOT NULL) STRICT, WITHOUT ROWID;

  CREATE TABLE entries (
    id INTEGER PRIMARY KEY, pool TEXT NOT NULL, ms INTEGER NOT NULL, seq INTEGER NOT NULL,
    outcome TEXT, body TEXT NOT NULL
  ) STRICT;
  CREATE UNIQUE INDEX entries_by_id ON entries (pool, ms, seq);
  CREATE UNIQUE INDEX entries_by_outcome ON entries (outcome) WHERE outcome IS NOT NULL;

  CREATE TABLE groups (
    pool TEXT NOT NULL, name TEXT NOT NULL, last_ms INTEGER NOT NULL, last_seq INTEGER NOT NULL,
    PRIMARY KEY (pool, name)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE pending (
    pool TEXT NOT NULL, name TEXT NOT NULL, ms INTEGER NOT NULL, seq INTEGER NOT NULL,
    consumer TEXT NOT NULL, delivered_at INTEGER NOT NULL, deliveries INTEGER NOT NULL,
    PRIMARY KEY (pool, name, ms, seq)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX pending_by_age ON pending (pool, name, delivered_at);

  CREATE TABLE tallies (id INTEGER PRIMARY KEY, pool TEXT NOT NULL, name TEXT NOT NULL, UNIQUE (pool, name)) STRICT;

  CREATE TABLE sums (
    tally INTEGER NOT NULL, field TEXT NOT NULL, value INTEGER NOT NULL, PRIMARY KEY (tally, field)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE joins (
    id INTEGER PRIMARY KEY, pool TEXT NOT NULL, name TEXT NOT NULL, tally INTEGER NOT NULL, touched_at INTEGER NOT NULL,
    UNIQUE (pool, name)
  ) STRICT;
  CREATE INDEX joins_by_age ON joins (touched_at);

  CREATE TABLE cells (
    prompt INTEGER NOT NULL, replicate INTEGER NOT NULL, mask INTEGER NOT NULL,
    reward INTEGER, entry TEXT NOT NULL, design TEXT NOT NULL,
    PRIMARY KEY (prompt, replicate, mask)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE estimates (
    system TEXT NOT NULL, task TEXT NOT NULL, source TEXT NOT NULL, body TEXT NOT NULL,
    PRIMARY KEY (system, task, source)
  ) STRICT, WITHOUT ROWID;
  `,
  `
  ALTER TABLE estimates ADD COLUMN fence INTEGER NOT NULL DEFAULT 0;

  CREATE TABLE leases (
    name TEXT PRIMARY KEY, holder TEXT NOT NULL, token INTEGER NOT NULL, expires_at INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE buried (
    id INTEGER PRIMARY KEY, pool TEXT NOT NULL, ms INTEGER NOT NULL, seq INTEGER NOT NULL, reason TEXT NOT NULL
  ) STRICT;
  CREATE INDEX buried_by_pool ON buried (pool, id);

  CREATE TABLE counters (
    name TEXT PRIMARY KEY, total INTEGER NOT NULL, expires_at INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  `,
  `
  CREATE TABLE releases (
    policy TEXT NOT NULL, version INTEGER NOT NULL, transitions INTEGER NOT NULL, is_live INTEGER NOT NULL,
    body TEXT NOT NULL, PRIMARY KEY (policy, version)
  ) STRICT, WITHOUT ROWID;
  `,
  `
  ALTER TABLE entries ADD COLUMN work INTEGER NOT NULL DEFAULT 1;
  CREATE INDEX entries_to_work_on ON entries (pool, ms, seq) WHERE work = 1;
  `,
  `
  CREATE TABLE plans (id INTEGER PRIMARY KEY, hash TEXT NOT NULL UNIQUE, used_ms INTEGER NOT NULL, body TEXT NOT NULL) STRICT;
  ALTER TABLE entries ADD COLUMN plan INTEGER;
  `,
  `
  CREATE TABLE turns (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, body TEXT NOT NULL, expires_at INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX turns_by_end ON turns (expires_at);
  `,
  `
  CREATE TABLE places (
    name TEXT NOT NULL, holder TEXT NOT NULL, expires_at INTEGER NOT NULL, PRIMARY KEY (name, holder)
  ) STRICT, WITHOUT ROWID;
  `,
];

/** Brings a file to the newest tables; refuses one that a newer program has written. */
export function migrate(database: DatabaseSync): void {
  if (version(database) === MIGRATIONS.length) return;
  database.exec('BEGIN IMMEDIATE');
  try {
    const seen = version(database);
    if (seen > MIGRATIONS.length) {
      const detail = `its file has version ${seen}, and this program knows ${MIGRATIONS.length}`;
      throw new ConsortError('store_unavailable', [detail]);
    }
    for (const step of MIGRATIONS.slice(seen)) database.exec(step);
    database.exec(`PRAGMA user_version = ${MIGRATIONS.length}`);
    database.exec('COMMIT');
  } catch (error) {
    database.exec('ROLLBACK');
    throw error;
  }
}

function version(database: DatabaseSync): number {
  return Number(database.prepare('PRAGMA user_version').get()?.['user_version'] ?? 0);
}
