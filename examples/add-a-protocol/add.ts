/** Adds the protocol of this folder to a checkout: a file, its test, a line in the list, a row in the docs. */
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const HERE = import.meta.dirname;
const ROW =
  '| `shortest` | all members answer; the shortest answer wins | n | 1 | whole text at the end | no |';

function edit(path: string, change: (text: string) => string): void {
  const before = readFileSync(path, 'utf8');
  const after = change(before);
  if (after === before) throw new Error(`${path} is not what this example knows: nothing was added`);
  writeFileSync(path, after);
}

/** @returns the paths that were touched */
export function addProtocol(checkout: string): string[] {
  const file = 'src/gateway/protocols/shortest.ts';
  const test = 'test/gateway/shortest.test.ts';
  const list = 'src/gateway/protocols/index.ts';
  const guide = 'docs/protocols.md';
  copyFileSync(join(HERE, 'shortest.ts'), join(checkout, file));
  copyFileSync(join(HERE, 'shortest.test.ts'), join(checkout, test));
  edit(join(checkout, list), (text) =>
    text
      .replace(/^import /m, "import { shortest } from './shortest.ts';\nimport ")
      .replace(/,?\s*\];\s*$/, ',\n  shortest,\n];\n'),
  );
  edit(join(checkout, guide), (text) => text.replace(/(\| `single` [^\n]*\n)/, `$1${ROW}\n`));
  return [file, test, list, guide];
}
