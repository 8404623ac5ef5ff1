/** Reads a configuration file: YAML, references, defaults, checks. */
import { readFileSync } from 'node:fs';
import { parseDocument } from 'yaml';
import { ConsortError } from '../contract/errors.ts';
import { checkDocument, type Checked, type Known } from './check.ts';
import { withFitted } from './fitted.ts';
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
  const { document: whole, problems: unfitted } = withFitted(document, file);
  const { value, problems: unresolved, secrets } = resolveReferences(whole, environment);
  const problems = [...unfitted, ...unresolved];
  const checked = checkDocument(value, known);
  // What could not be resolved is told once: what stands in its place is wrong only because of that.
  const told = new Set(problems.map(({ path }) => path));
  const all = [...problems, ...checked.problems.filter(({ path }) => !told.has(path))];
  return all.length > 0 ? { problems: all.map((problem) => withoutSecrets(problem, secrets)) } : checked;
}

/** Shorter values are no secrets, and would be found everywhere. */
const SECRET_LENGTH = 4;

function withoutSecrets({ path, message, remedy }: Problem, secrets: ReadonlySet<string>): Problem {
  const clean = (text: string) => {
    let cleaned = text;
    for (const secret of secrets) {
      if (secret.length < SECRET_LENGTH) continue;
      // A message may quote it as JSON.
      for (const form of [secret, JSON.stringify(secret).slice(1, -1)])
        cleaned = cleaned.replaceAll(form, '[redacted]');
    }
    return cleaned;
  };
  return { path: clean(path), message: clean(message), remedy: clean(remedy) };
}

/** The document, or what is wrong with it. Only the first line of a message: the others quote the file. */
function readYaml(text: string, file: string): { document?: unknown; problems: Problem[] } {
  const problem = ({ message }: Error): Problem => ({
    path: file,
    message: message.split('\n')[0] ?? message,
    remedy: 'Correct the YAML.',
  });
  try {
    const yaml = parseDocument(text, { prettyErrors: true });
    if (yaml.errors.length > 0) return { problems: yaml.errors.map(problem) };
    const document: unknown = yaml.toJS({ maxAliasCount: 100 });
    if (isEndless(document))
      return { problems: [problem(new TypeError('An alias stands inside its own anchor'))] };
    return { document, problems: [] };
  } catch (error) {
    // An alias without its anchor, one that unfolds without end, or nesting without bound shows only here.
    return { problems: [problem(error instanceof Error ? error : new TypeError(String(error)))] };
  }
}

/** Whether an object is its own descendant. */
function isEndless(value: unknown, above: ReadonlySet<unknown> = new Set()): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (above.has(value)) return true;
  const within = new Set(above).add(value);
  return Object.values(value).some((item) => isEndless(item, within));
}
