import { readFileSync } from 'node:fs';
import t from 'tap';
import { Config } from '../../src/contract/config.ts';
import { pages } from '../../tools/docs/pages.ts';

const PAGE = 'docs/reference/config.md';
const page = readFileSync(new URL(`../../${PAGE}`, import.meta.url), 'utf8');

interface Schema {
  readonly properties?: Record<string, Schema>;
  readonly items?: Schema;
  readonly default?: unknown;
}

/** Every path of a JSON schema that is not an object, with its default as JSON. */
function defaults(schema: Schema, path: string): [path: string, value: string | undefined][] {
  if (schema.properties) {
    const fields = Object.entries(schema.properties);
    return fields.flatMap(([name, field]) => defaults(field, path ? `${path}.${name}` : name));
  }
  const own: [string, string | undefined] = [path, JSON.stringify(schema.default)];
  return schema.items?.properties ? [own, ...defaults(schema.items, `${path}[]`)] : [own];
}

t.test('the page of the configuration lists each field of the schema with its default, and no other', (t) => {
  const rows = page.matchAll(
    /^\| `(?<path>[a-z][\w.[\]-]*)` +\| (?:[^|\\]|\\.)+ \| (?<value>\S.*?) +\| (?<meaning>\S.*?) +\|$/gim,
  );
  const documented = Array.from(rows, ({ groups }) => {
    const value = groups?.['value'] ?? '';
    return [groups?.['path'], value.startsWith('`') ? value.slice(1, -1) : undefined];
  });
  t.strictSame(documented, defaults(JSON.parse(JSON.stringify(Config)), ''));
  t.end();
});

t.test('the page of the configuration is what tools/docs/write.ts would write', async (t) => {
  const fresh = (await pages()).find(({ path }) => path.endsWith(PAGE));
  t.equal(page, fresh?.text, 'run `npm run docs`');
});
