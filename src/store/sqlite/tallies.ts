/** The tables of running sums, and of what each prompt instance has added to them. Synchronous. */
import type { DatabaseSync, SQLOutputValue } from 'node:sqlite';
import type { TallyEvent, TallyKey } from '../../contract/store.ts';
import { parseEntryId } from '../entry-id.ts';
import { joinName, parseTallyName, tallyName } from '../tally-name.ts';
import { type Cell, type Join, tallyUpdate } from '../tally-update.ts';

export type Applied = 'new' | 'revised' | 'duplicate';

interface Prompt {
  readonly id: number;
  /** The tally that this prompt adds to: that of its first event. */
  readonly tally: number;
}

export class TallyTables {
  readonly #now: () => number;
  readonly #sql: ReturnType<typeof prepare>;

  constructor(database: DatabaseSync, now: () => number) {
    this.#now = now;
    this.#sql = prepare(database);
  }

  apply(event: TallyEvent): Applied {
    const prompt = this.#prompt(event);
    const update = tallyUpdate(this.#join(prompt.id), event);
    if (update.result !== 'duplicate') {
      const { mask, replicate, reward, entryId, design } = event;
      this.#sql.setCell.run(prompt.id, replicate, mask, reward, entryId, design);
      this.#sql.touch.run(this.#now(), prompt.id);
      for (const [field, amount] of update.deltas) {
        if (amount !== 0) this.#sql.add.run(prompt.tally, field, amount);
      }
    }
    if (event.group !== null) {
      const { ms, seq } = parseEntryId(event.entryId);
      this.#sql.acknowledge.run(event.key.pool, event.group, ms, seq);
    }
    return update.result;
  }

  #prompt(event: TallyEvent): Prompt {
    const { pool } = event.key;
    const name = joinName(event.key, event.promptInstance);
    const known = this.#sql.prompt.get(pool, name);
    if (known) return { id: Number(known['id']), tally: Number(known['tally']) };
    const tally = this.#tally(event.key);
    return { id: Number(this.#sql.addPrompt.run(pool, name, tally, this.#now()).lastInsertRowid), tally };
  }

  #tally(key: TallyKey): number {
    const name = tallyName(key);
    const known = this.#sql.tally.get(key.pool, name);
    return known ? Number(known['id']) : Number(this.#sql.addTally.run(key.pool, name).lastInsertRowid);
  }

  #join(prompt: number): Join {
    const sql = this.#sql;
    return {
      cell: (mask, replicate) => {
        const row = sql.cell.get(prompt, replicate, mask);
        return row && cellOf(row);
      },
      cells: () => sql.cells.all(prompt).map((row) => [Number(row['mask']), cellOf(row)] as const),
      size: () => Number(sql.size.get(prompt)?.['size'] ?? 0),
    };
  }

  keys(filter: { readonly pool?: string; readonly system?: string }): TallyKey[] {
    const rows = this.#sql.keys.all(filter.pool ?? null, filter.pool ?? null);
    const keys = rows.map((row) => parseTallyName(String(row['pool']), String(row['name'])));
    return keys.filter(({ system }) => filter.system === undefined || system === filter.system);
  }

  read(key: TallyKey): Map<string, bigint> {
    const rows = this.#sql.sums.all(key.pool, tallyName(key));
    return new Map(rows.map((row) => [String(row['field']), BigInt(String(row['value']))]));
  }

  /** Forgets what prompts have added, so that their sums stay as they are. */
  trim(beforeMs: number): void {
    this.#sql.trimCells.run(beforeMs);
    this.#sql.trimPrompts.run(beforeMs);
  }
}

function cellOf(row: Record<string, SQLOutputValue>): Cell {
  const { reward, entry, design } = row;
  return {
    reward: reward === null ? null : Number(reward),
    entryId: String(entry),
    design: design === 'd' || design === 'f' ? design : '-',
  };
}

function prepare(database: DatabaseSync) {
  const sql = (text: string) => database.prepare(text);
  const sums = sql(
    `SELECT field, value FROM sums JOIN tallies ON tallies.id = sums.tally
     WHERE pool = ? AND name = ? AND value <> 0`,
  );
  sums.setReadBigInts(true);
  return {
    sums,
    prompt: sql('SELECT id, tally FROM joins WHERE pool = ? AND name = ?'),
    addPrompt: sql('INSERT INTO joins (pool, name, tally, touched_at) VALUES (?, ?, ?, ?)'),
    touch: sql('UPDATE joins SET touched_at = ? WHERE id = ?'),
    tally: sql('SELECT id FROM tallies WHERE pool = ? AND name = ?'),
    addTally: sql('INSERT INTO tallies (pool, name) VALUES (?, ?)'),
    keys: sql('SELECT pool, name FROM tallies WHERE ? IS NULL OR pool = ? ORDER BY pool, name'),
    cell: sql('SELECT reward, entry, design FROM cells WHERE prompt = ? AND replicate = ? AND mask = ?'),
    cells: sql('SELECT mask, reward, entry, design FROM cells WHERE prompt = ? AND replicate = 0'),
    size: sql('SELECT count(*) AS size FROM cells WHERE prompt = ? AND replicate = 0'),
    setCell: sql('INSERT OR REPLACE INTO cells VALUES (?, ?, ?, ?, ?, ?)'),
    add: sql('INSERT INTO sums VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET value = value + excluded.value'),
    acknowledge: sql('DELETE FROM pending WHERE pool = ? AND name = ? AND ms = ? AND seq = ?'),
    trimCells: sql('DELETE FROM cells WHERE prompt IN (SELECT id FROM joins WHERE touched_at < ?)'),
    trimPrompts: sql('DELETE FROM joins WHERE touched_at < ?'),
  };
}
