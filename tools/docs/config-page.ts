/** docs/reference/config.md, drawn from the schema of the configuration file. */
import { Config } from '../../src/contract/config.ts';
import { typeOf, type Schema } from './schema-type.ts';
import { row } from './table.ts';

interface Field {
  readonly path: string;
  readonly schema: Schema;
  readonly required: boolean;
}

/** Meanings of words that the config shares with other values, and that carry none in their schema. */
const SHARED: Readonly<Record<string, string>> = {
  'models[].provider': 'The dialect of the upstream; `sim` is the built-in simulated model.',
};

const INTRODUCTION = `# Configuration

One YAML file, given by \`--config FILE\`. \`consort check\` explains every error in it with its path and the remedy.
A field that is not listed here is an error. Secrets are written as \`\${ENV_NAME}\` or \`file:/path\`, never in the
file itself. \`models[]\` stands for each entry of the list \`models\`; *none* means that the field may be left out and then
has no effect.
`;

/** Fields with a value of their own, in the order of the schema; an object is only the path to its fields. */
function* fieldsOf(schema: Schema, path: string, required: boolean): Generator<Field> {
  if (schema.properties) {
    for (const [name, field] of Object.entries(schema.properties)) {
      const isRequired = schema.required?.includes(name) ?? false;
      yield* fieldsOf(field, path === '' ? name : `${path}.${name}`, isRequired);
    }
    return;
  }
  yield { path, schema, required };
  if (schema.items?.properties) yield* fieldsOf(schema.items, `${path}[]`, true);
}

function defaultOf({ schema, required }: Field): string {
  if (schema.default !== undefined) return `\`${JSON.stringify(schema.default)}\``;
  return required ? '**required**' : 'none';
}

function meaningOf({ path, schema }: Field): string {
  const meaning = schema.description ?? SHARED[path];
  if (meaning === undefined)
    throw new Error(`${path} has no description in src/contract/config.ts: give it one`);
  return meaning;
}

export function configPage(): string {
  const lines: string[] = [INTRODUCTION];
  const root = JSON.parse(JSON.stringify(Config)) as Schema;
  for (const [name, schema] of Object.entries(root.properties ?? {})) {
    lines.push(`## ${name}`, '', row('Field', 'Type', 'Default', 'Meaning'), row('---', '---', '---', '---'));
    for (const field of fieldsOf(schema, name, true)) {
      lines.push(row(`\`${field.path}\``, typeOf(field.schema), defaultOf(field), meaningOf(field)));
    }
    lines.push('');
  }
  return lines.join('\n');
}
