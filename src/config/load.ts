/** Reads a configuration file: YAML, references, defaults, checks. */
import { readFileSync } from 'node:fs';
import { parseDocument } from 'yaml';
import { ConsortError } from '../contract/errors.ts';
import { checkDocument, type Checked, type Known } from './check.ts';
import type { Problem } from './problem.ts';
import { resolveReferences, type Environment } from './secrets.ts';

/**
 * All problems of a file at once, or its configuration.
 *
 * @throws `config_unreadable` when the file cannot be read
 */
export function readConfig(file: string, environment: Environment, known: Known): Checked {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new ConsortError('config_unreadable', [file, reason], { cause: error });
  }
  const yaml = parseDocument(text, { prettyErrors: true });
  if (yaml.errors.length > 0) {
    const problems: Problem[] = yaml.errors.map(({ message }) => ({
      path: file,
      message: message.split('\n')[0] ?? message,
      remedy: 'Correct the YAML.',
    }));
    return { problems };
  }
  const { value, problems } = resolveReferences(yaml.toJS({ maxAliasCount: 100 }), environment);
  const checked = checkDocument(value, known);
  return problems.length > 0 ? { problems: [...problems, ...checked.problems] } : checked;
}
