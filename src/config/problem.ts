/** What is wrong with a configuration: where, what stands there, and what to do. */
import { ConsortError } from '../contract/errors.ts';

export interface Problem {
  /** Dotted path, list items by their id where they have one: `systems.research.options.rounds`. */
  readonly path: string;
  readonly message: string;
  readonly remedy: string;
}

/** The first problem as an error; the others are counted. */
export function problemError(problems: readonly Problem[]): ConsortError {
  const [first] = problems;
  if (!first) throw new TypeError('no problem to report');
  const more = problems.length > 1 ? ` (and ${problems.length - 1} more; \`consort check\` lists them)` : '';
  return new ConsortError('config_invalid', [first.path, `${first.message}${more}`, first.remedy], {
    param: first.path,
  });
}
