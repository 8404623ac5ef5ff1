/** The table of releases: each version of a policy as text, and which one is live. Synchronous. */
import type { DatabaseSync, SQLOutputValue, StatementSync } from 'node:sqlite';
import type { StoredRelease } from '../stored-release.ts';

export class ReleaseTable {
  readonly #one: StatementSync;
  readonly #all: StatementSync;
  readonly #policies: StatementSync;
  readonly #live: StatementSync;
  readonly #transitions: StatementSync;
  readonly #liveVersion: StatementSync;
  readonly #put: StatementSync;

  constructor(database: DatabaseSync) {
    const sql = (text: string) => database.prepare(text);
    this.#one = sql('SELECT body FROM releases WHERE policy = ? AND version = ?');
    this.#all = sql(
      'SELECT body FROM releases WHERE ?1 IS NULL OR policy = ?1 ORDER BY policy, version DESC',
    );
    this.#policies = sql('SELECT DISTINCT policy FROM releases ORDER BY policy');
    this.#live = sql('SELECT body FROM releases WHERE policy = ? AND is_live = 1');
    this.#transitions = sql('SELECT transitions FROM releases WHERE policy = ? AND version = ?');
    this.#liveVersion = sql('SELECT version FROM releases WHERE policy = ? AND is_live = 1');
    this.#put = sql('INSERT OR REPLACE INTO releases VALUES (?, ?, ?, ?, ?)');
  }

  release(policy: string, version: number): string | undefined {
    return bodyOf(this.#one.get(policy, version));
  }

  releases(policy: string | null): string[] {
    return this.#all.all(policy).map((row) => String(row['body']));
  }

  policies(): string[] {
    return this.#policies.all().map((row) => String(row['policy']));
  }

  live(policy: string): string | undefined {
    return bodyOf(this.#live.get(policy));
  }

  /** Nothing is written unless every change fits: the transaction is shared with other calls and cannot go back. */
  change(policy: string, changes: readonly StoredRelease[]): boolean {
    for (const { version, expected } of changes) {
      const kept = this.#transitions.get(policy, version);
      if (Number(kept?.['transitions'] ?? 0) !== expected) return false;
    }
    const row = this.#liveVersion.get(policy);
    const stays = row && !changes.some(({ version }) => version === Number(row['version']));
    if (changes.filter(({ isLive }) => isLive).length + (stays ? 1 : 0) > 1) return false;
    for (const { version, transitions, isLive, body } of changes) {
      this.#put.run(policy, version, transitions, isLive ? 1 : 0, body);
    }
    return true;
  }
}

function bodyOf(row: Record<string, SQLOutputValue> | undefined): string | undefined {
  return row && String(row['body']);
}
