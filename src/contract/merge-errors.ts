/** The part of the error catalogue that is about merged weights. */
import { request, type Entry } from './error-entry.ts';

export const MERGE_ERRORS = {
  coalition_unmerged: request(
    409,
    'No model is merged by %s from %s, a coalition of pool %s',
    'Run `consort merge --coalition %s --method %s` and what it prints, or ask for another coalition.',
  ),
  merge_invalid: request(400, 'These models cannot be merged by %s: %s', '%s'),
  merge_exists: request(
    409,
    'There is another job at %s: its %s differs',
    'Take another directory with --out, or remove that one if nothing needs it.',
  ),
} as const satisfies Record<string, Entry>;
