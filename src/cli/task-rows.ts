/** The tasks that a command names: of the simulation, or of a file. */
import { ConsortError } from '../contract/errors.ts';
import type { TaskRow } from '../contract/task.ts';
import { simRows, simTaskSet } from '../gateway/upstreams/sim/tasks.ts';
import { verifiers } from '../scoring/rewards/index.ts';
import { readTaskFile } from '../scoring/sweep/task-file.ts';
import { integerFlag, type Flags } from './command.ts';

const DEFAULT_LIMIT = 200;

/** @throws `tasks_invalid`, `file_unreadable`; `usage` for a --limit that is no number */
export function rowsOf(tasks: string, flags: Flags, seed: number): readonly TaskRow[] {
  const limit = integerFlag(flags, 'limit', 1, 1_000_000);
  const simulated = simTaskSet(tasks);
  if (simulated) return simRows(simulated.kind, limit ?? DEFAULT_LIMIT, seed);
  const rows = readTaskFile(tasks);
  for (const { id, verifier } of rows) {
    if (verifiers.some((known) => known.id === verifier)) continue;
    const known = verifiers.map((one) => one.id).join(', ');
    throw new ConsortError('tasks_invalid', [
      tasks,
      id,
      `there is no verifier ${verifier}; use one of ${known}`,
    ]);
  }
  return limit === undefined ? rows : rows.slice(0, limit);
}
