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
  const { document, problems: faults } = readYaml(text, file);
  if (faults.length > 0) return { problems: faults };
  const { value, problems } = resolveReferences(document, environment);
  const checked = checkDocument(value, known);
  return problems.length > 0 ? { problems: [...problems, ...checked.problems] } : checked;
}

/** The document, or what is wrong with it. Only the first line of a message: the others quote the file. */
function readYaml(text: string, file: string): { document?: unknown; problems: Problem[] } {
  const problem = ({ message }: Error): Problem => ({
    path: file,
    message: message.split('\n')[0] ?? message,
    remedy: 'Correct the YAML.',
  });
  const yaml = parseDocument(text, { prettyErrors: true });
  if (yaml.errors.length > 0) return { problems: yaml.errors.map(problem) };
  try {
    const document: unknown = yaml.toJS({ maxAliasCount: 100 });
    return { document, problems: [] };
  } catch (error) {
    // An alias without its anchor, or one that unfolds without end, shows only here.
    return { problems: [problem(error instanceof Error ? error : new TypeError(String(error)))] };
  }
}
