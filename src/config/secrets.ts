/** `${ENV}` and `file:` in a configuration. A secret written out is refused: files get copied and committed. */
import { readFileSync } from 'node:fs';
import type { Problem } from './problem.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

const REFERENCE = /\$\{([A-Za-z_][A-Za-z0-9_]*)\}/g;
const ONLY_REFERENCE = /^\$\{[A-Za-z_][A-Za-z0-9_]*\}$/;
/** An address with a password in it. */
const WITH_PASSWORD = /^\w+:\/\/[^/@]*:[^/@]+@/;
/** Fields that hold a secret, by their name. */
const SECRET_FIELDS = new Set(['apiKey']);
/** Stands for a value that could not be had, so that the rest of the document can still be checked. */
const UNRESOLVED = 'unresolved';
const FILE_FIELDS = new Set(['apiKey', 'url']);

function isWrittenOut(field: string, value: string): boolean {
  if (SECRET_FIELDS.has(field)) return !value.startsWith('file:') && !ONLY_REFERENCE.test(value);
  return WITH_PASSWORD.test(value.replace(REFERENCE, ''));
}

export interface Resolution {
  readonly value: unknown;
  readonly problems: readonly Problem[];
  /** What was put in the place of references: no message may repeat it, whatever field it stands in. */
  readonly secrets: ReadonlySet<string>;
}

/** Replaces references everywhere in a parsed document; reports each that cannot be. */
export function resolveReferences(document: unknown, environment: Environment): Resolution {
  const problems: Problem[] = [];
  const secrets = new Set<string>();
  const walk = (value: unknown, path: readonly string[]): unknown => {
    if (Array.isArray(value)) return value.map((item, index) => walk(item, [...path, nameOf(item, index)]));
    if (typeof value === 'object' && value !== null) {
      return Object.fromEntries(
        Object.entries(value).map(([key, item]) => [key, walk(item, [...path, key])]),
      );
    }
    return typeof value === 'string' ? text(value, path) : value;
  };
  const text = (value: string, path: readonly string[]): string => {
    const field = path.at(-1) ?? '';
    if (isWrittenOut(field, value)) {
      problems.push({
        path: path.join('.'),
        message: 'a secret is written out',
        remedy: 'Write ${ENV_NAME} or file:/path/to/secret.',
      });
      return UNRESOLVED;
    }
    if (FILE_FIELDS.has(field) && value.startsWith('file:')) {
      const content = fromFile(value.slice(5), path, problems);
      secrets.add(content);
      return content;
    }
    return value.replace(REFERENCE, (_match, name: string) => {
      const found = environment[name];
      if (found === undefined || found === '') {
        const message = `the environment variable ${name} is not set`;
        problems.push({ path: path.join('.'), message, remedy: `Set ${name}, or remove the field.` });
      }
      if (found) secrets.add(found);
      return found || UNRESOLVED;
    });
  };
  return { value: walk(document, []), problems, secrets };
}

/** List items are named by their id, so that a message survives reordering. */
export function nameOf(item: unknown, index: number): string {
  if (typeof item === 'object' && item !== null) {
    const { id, name } = item as { id?: unknown; name?: unknown };
    if (typeof id === 'string') return id;
    if (typeof name === 'string') return name;
  }
  return String(index);
}

function fromFile(file: string, path: readonly string[], problems: Problem[]): string {
  try {
    return readFileSync(file, 'utf8').trim();
  } catch (error) {
    const message = `the file ${file} cannot be read (${error instanceof Error ? error.message : String(error)})`;
    problems.push({ path: path.join('.'), message, remedy: 'Check the path and its permissions.' });
    return UNRESOLVED;
  }
}
