/** A cooperative game: what every coalition of some players achieves. */
import Type, { type Static } from 'typebox';
import Value from 'typebox/value';
import { ConsortError } from '../../contract/errors.ts';
import { coalitionName, MOST_PLAYERS } from './coalition.ts';

/** A game as a document. Keys of `v` are player names joined by commas, in any order; `""` is the empty coalition. */
export const GameDocument = Type.Object({
  players: Type.Array(Type.String({ minLength: 1, pattern: '^[^,]+$' }), {
    minItems: 1,
    maxItems: MOST_PLAYERS,
  }),
  v: Type.Record(Type.String(), Type.Number()),
});
export type GameDocument = Static<typeof GameDocument>;

export interface Game {
  readonly players: readonly string[];
  /** Value by mask, 2^n of them, all finite. */
  readonly values: Float64Array;
}

/** Missing coalitions that an error names before it only counts. */
const NAMED = 20;

/**
 * Reads a game. ConsortError `game_invalid` for anything but a complete one: duplicate or unknown players, more than
 * 20, a value that is not finite, a coalition given twice, or coalitions without a value, which are listed and never
 * taken for zero.
 */
export function parseGame(document: unknown): Game {
  if (!Value.Check(GameDocument, document)) throw invalid(shapeFault(document));
  const players = document.players.map((name) => name.trim());
  const index = new Map(players.map((name, i) => [name, i]));
  if (index.size < players.length) throw invalid(`a player is listed twice in ${players.join(', ')}`);
  const values = new Float64Array(2 ** players.length).fill(NaN);
  for (const [key, value] of Object.entries(document.v)) {
    const mask = maskOf(key, index);
    if (!Number.isFinite(value)) throw invalid(`the value of "${key}" is ${value}`);
    if (!Number.isNaN(values[mask]))
      throw invalid(`the coalition "${coalitionName(mask, players)}" is given twice`);
    values[mask] = value;
  }
  return gameOf(players, values);
}

/** A game from its table by mask; checks size, completeness and finiteness like `parseGame`. */
export function gameOf(players: readonly string[], values: Float64Array): Game {
  const n = players.length;
  if (n < 1 || n > MOST_PLAYERS) throw invalid(`it has ${n} players, 1 to ${MOST_PLAYERS} can be tabulated`);
  if (values.length !== 2 ** n) throw invalid(`it has ${values.length} values for ${2 ** n} coalitions`);
  const missing: string[] = [];
  let count = 0;
  values.forEach((value, mask) => {
    if (Number.isFinite(value)) return;
    count += 1;
    if (missing.length < NAMED) missing.push(`"${coalitionName(mask, players)}"`);
  });
  if (count === 0) return { players, values };
  const more = count > missing.length ? ` and ${count - missing.length} more` : '';
  throw invalid(`no value for ${count} of ${2 ** n} coalitions: ${missing.join(', ')}${more}`);
}

function maskOf(key: string, index: ReadonlyMap<string, number>): number {
  if (key.trim() === '') return 0;
  let mask = 0;
  for (const name of key.split(',')) {
    const bit = index.get(name.trim());
    if (bit === undefined) throw invalid(`"${name.trim()}" in the coalition "${key}" is not a player`);
    if ((mask >>> bit) & 1) throw invalid(`"${name.trim()}" occurs twice in the coalition "${key}"`);
    mask |= 1 << bit;
  }
  return mask;
}

function shapeFault(document: unknown): string {
  const players: unknown = Reflect.get(Object(document), 'players');
  if (Array.isArray(players) && players.length > MOST_PLAYERS) {
    return `it has ${players.length} players, at most ${MOST_PLAYERS} can be tabulated`;
  }
  const [fault] = Value.Errors(GameDocument, document);
  return fault === undefined ? 'it is no game' : `${fault.instancePath || '/'} ${fault.message}`;
}

function invalid(reason: string): ConsortError {
  return new ConsortError('game_invalid', [reason]);
}
