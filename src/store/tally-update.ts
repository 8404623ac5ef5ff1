/**
 * What one rewarded coalition run changes in the running sums, as integer differences: pure, so that the embedded
 * store can apply it and the Lua script of the Redis store can be compared with it. Sums are of integers and
 * therefore exact, in any order; a revision retracts what the old reward added and adds anew.
 *
 * Assumes that a prompt instance has one reward per (mask, replicate) and source. Source of the fields: the running
 * sums that `docs/reference/data-model.md` explains.
 */
import type { TallyEvent } from '../contract/store.ts';
import { compareEntryIds, parseEntryId } from './entry-id.ts';
import { MAX_PANEL, panelColumns, panelRow } from './panel.ts';

/** The latest known reward of one coalition run of a prompt. */
export interface Cell {
  readonly reward: number | null;
  readonly entryId: string;
  readonly design: TallyEvent['design'];
}

/** What is known of a prompt instance before the event. */
export interface Join {
  cell(mask: number, replicate: number): Cell | undefined;
  /** The cells of replicate 0. */
  cells(): Iterable<readonly [mask: number, cell: Cell]>;
  /** How many those are. */
  size(): number;
}

export type TallyUpdate =
  | { readonly result: 'duplicate' }
  | { readonly result: 'new' | 'revised'; readonly deltas: ReadonlyMap<string, number> };

type Add = (field: string, amount: number) => void;

/** A cell with +1 when it enters the sums, −1 when it leaves them. */
type Change = readonly [cell: Cell, sign: 1 | -1];

/** The differences that an event makes; a duplicate or older event makes none. */
export function tallyUpdate(join: Join, event: TallyEvent): TallyUpdate {
  const old = join.cell(event.mask, event.replicate);
  if (old && compareEntryIds(parseEntryId(old.entryId), parseEntryId(event.entryId)) >= 0) {
    return { result: 'duplicate' };
  }
  const deltas = new Map<string, number>();
  const add: Add = (field, amount) => {
    if (amount !== 0) deltas.set(field, (deltas.get(field) ?? 0) + amount);
  };
  const changes: Change[] = [[{ reward: event.reward, entryId: event.entryId, design: event.design }, 1]];
  if (old) changes.unshift([old, -1]);
  for (const [cell, sign] of changes) addValue(add, event.mask, cell, sign);
  if (event.replicate === 0) {
    addPairs(add, join, event, changes);
    addDuel(add, join, event, changes);
    addPanel(add, join, event, changes);
  }
  return { result: old ? 'revised' : 'new', deltas };
}

function addValue(add: Add, mask: number, { reward }: Cell, sign: number): void {
  if (reward === null) return add(`${mask}:x`, sign);
  add(`${mask}:n`, sign);
  add(`${mask}:s`, sign * reward);
  add(`${mask}:q`, sign * reward * reward);
}

/** Differences to the grand coalition on the same prompt. */
function addPairs(add: Add, join: Join, event: TallyEvent, changes: readonly Change[]): void {
  const grand = 2 ** event.n - 1;
  if (event.mask === grand) {
    for (const [mask, part] of join.cells()) {
      if (mask === grand) continue;
      for (const [cell, sign] of changes) addPair(add, mask, part.reward, cell.reward, sign);
    }
    return;
  }
  const whole = join.cell(grand, 0);
  if (!whole) return;
  for (const [cell, sign] of changes) addPair(add, event.mask, cell.reward, whole.reward, sign);
}

function addPair(add: Add, mask: number, part: number | null, whole: number | null, sign: number): void {
  if (part === null || whole === null) return;
  const difference = part - whole;
  add(`${mask}:dn`, sign);
  add(`${mask}:ds`, sign * difference);
  add(`${mask}:dq`, sign * difference * difference);
  if (difference > 0) add(`${mask}:dp`, sign);
  if (difference < 0) add(`${mask}:dm`, sign);
}

/** A coalition and its complement on the same prompt, both drawn as a duel. */
function addDuel(add: Add, join: Join, event: TallyEvent, changes: readonly Change[]): void {
  const other = 2 ** event.n - 1 - event.mask;
  if (other === 0) return;
  const rival = join.cell(other, 0);
  if (rival?.design !== 'd') return;
  for (const [cell, sign] of changes) {
    if (cell.design === 'd') addDuelRow(add, event, cell.reward, rival.reward, sign);
  }
}

function addDuelRow(
  add: Add,
  event: TallyEvent,
  own: number | null,
  rival: number | null,
  sign: number,
): void {
  if (own === null || rival === null) return add('D:x', sign);
  const { n, mask } = event;
  let size = 0;
  for (let i = 0; i < n; i++) size += (mask >> i) & 1;
  const row: number[] = [];
  for (let i = 0; i < n; i++) {
    const inside = ((mask >> i) & 1) === 1;
    const half = inside ? size : n - size;
    const lead = inside ? own - rival : rival - own;
    row.push((n - half) * lead);
    add(`S:${i}:${half}:n`, sign);
    add(`S:${i}:${half}:e`, sign * lead);
    add(`S:${i}:${half}:q`, sign * lead * lead);
  }
  add('D:n', sign);
  row.forEach((value, i) => {
    add(`D:${i}`, sign * value);
    for (let j = i; j < n; j++) add(`D:${i}:${j}`, sign * value * (row[j] ?? 0));
  });
}

/** A row of functionals when every coalition of the prompt has a reward, all drawn as a full panel. */
function addPanel(add: Add, join: Join, event: TallyEvent, changes: readonly Change[]): void {
  const { n, mask } = event;
  if (n > MAX_PANEL || !changes.some(([cell]) => cell.design === 'f')) return;
  const coalitions = 2 ** n - 1;
  if (join.size() + (changes.length === 1 ? 1 : 0) < coalitions) return;
  const rewards = [0];
  let complete = 1;
  for (const [coalition, cell] of join.cells()) {
    if (coalition === mask || cell.design !== 'f' || cell.reward === null) continue;
    rewards[coalition] = cell.reward;
    complete += 1;
  }
  if (complete < coalitions) return;
  for (const [cell, sign] of changes) {
    if (cell.design !== 'f' || cell.reward === null) continue;
    rewards[mask] = cell.reward;
    addPanelRow(add, panelColumns(n), panelRow(n, rewards), sign);
  }
}

function addPanelRow(add: Add, columns: readonly string[], row: readonly number[], sign: number): void {
  columns.forEach((column, i) => {
    const value = row[i] ?? 0;
    add(`F:${column}:n`, sign);
    add(`F:${column}:s`, sign * value);
    add(`F:${column}:q`, sign * value * value);
    for (let j = i + 1; j < columns.length; j++) {
      add(`F:${column}:${columns[j]}`, sign * value * (row[j] ?? 0));
    }
  });
}
