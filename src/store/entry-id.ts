/** Entry ids as Redis makes them: `<milliseconds>-<sequence>`, increasing within a pool. */
import { ConsortError } from '../contract/errors.ts';

export interface EntryId {
  readonly ms: number;
  readonly seq: number;
}

/** The parts of an id; anything else is a mistake of the caller. */
export function parseEntryId(id: string): EntryId {
  const match = /^(\d{1,16})-(\d{1,16})$/.exec(id);
  if (!match) throw new ConsortError('internal', [`entry id ${id}`]);
  return { ms: Number(match[1]), seq: Number(match[2]) };
}

export const formatEntryId = (id: EntryId): string => `${id.ms}-${id.seq}`;

/** Negative when `a` is older than `b`. */
export const compareEntryIds = (a: EntryId, b: EntryId): number => a.ms - b.ms || a.seq - b.seq;

/** The id after `last` at time `now`; a clock that went back does not bring ids back. */
export function nextEntryId(last: EntryId, now: number): EntryId {
  return now > last.ms ? { ms: now, seq: 0 } : { ms: last.ms, seq: last.seq + 1 };
}
