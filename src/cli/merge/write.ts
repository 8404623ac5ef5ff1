/** Jobs on disk: the same job twice is one, and another job is never written over. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ConsortError } from '../../contract/errors.ts';
import type { Job } from './job.ts';

/**
 * @returns whether anything had to be written
 * @throws `merge_exists`, before anything is written
 */
export function writeJobs(jobs: readonly Job[]): boolean[] {
  const missing = jobs.map(({ directory, files }) =>
    Object.entries(files).filter(([name, content]) => {
      const before = contentOf(join(directory, name));
      if (before !== undefined && before !== content)
        throw new ConsortError('merge_exists', [directory, name]);
      return before === undefined;
    }),
  );
  for (const [index, { directory }] of jobs.entries()) {
    mkdirSync(directory, { recursive: true });
    for (const [name, content] of missing[index] ?? []) writeFileSync(join(directory, name), content);
  }
  return missing.map(({ length }) => length > 0);
}

function contentOf(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    const reason = error instanceof Error ? error.message : String(error);
    throw new ConsortError('file_unreadable', [file, reason], { cause: error });
  }
}
