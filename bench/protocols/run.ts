/**
 * `npm run bench:protocols`: runs every protocol whose members speak in words on the tiny team, over HTTP, and once more
 * with a malicious member, and writes what comes of it into docs/protocols.md. `--only accuracy` or `--only injection`
 * measures one part and keeps the other's last numbers; `--only page` writes the page anew. Exits with 1 when a call has
 * failed or a fence has made an attack likelier.
 */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { format, resolveConfig } from 'prettier';
import { measureAccuracy, type Accuracy } from './accuracy.ts';
import { measureInjection, readAttacks, type Injection } from './injection.ts';
import { failuresOf, withResults, type Results } from './page.ts';
import { openSite, type Site } from './site.ts';
import { benchTasks } from './tasks.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const { values } = parseArgs({
  options: {
    tasks: { type: 'string', default: '200' },
    only: { type: 'string' },
    directory: { type: 'string', default: '.consort/bench-protocols' },
    write: { type: 'boolean', default: true },
  },
  allowNegative: true,
});
const directory = resolve(root, values.directory);
const tasks = benchTasks(root, Number(values.tasks));
const say = (line: string): void => void process.stderr.write(`${line}\n`);

const isWanted = (part: string): boolean => values.only === undefined || values.only === part;
const fileOf = (part: string): string => join(directory, `${part}.json`);

async function measure<T>(part: string, run: (site: Site) => Promise<T>): Promise<void> {
  if (!isWanted(part)) return;
  const scratch = mkdtempSync(join(tmpdir(), 'consort-bench-'));
  const site = await openSite(root, scratch);
  try {
    writeFileSync(fileOf(part), JSON.stringify(await run(site)));
  } finally {
    await site.stop();
    rmSync(scratch, { recursive: true });
  }
}

function read(part: string): unknown {
  if (!existsSync(fileOf(part))) throw new Error(`${part} has not been measured yet`);
  return JSON.parse(readFileSync(fileOf(part), 'utf8'));
}

mkdirSync(directory, { recursive: true });
await measure('accuracy', ({ url }) => measureAccuracy(url, tasks, say));
await measure('injection', ({ url, meddler }) =>
  measureInjection(url, meddler, tasks, readAttacks(root), say),
);
const results: Results = {
  date: new Date().toISOString().slice(0, 10),
  accuracy: read('accuracy') as Accuracy,
  injection: read('injection') as Injection,
};
const file = join(root, 'docs/protocols.md');
const page = withResults(readFileSync(file, 'utf8'), results);
const text = await format(page, { ...(await resolveConfig(file)), filepath: file });
if (values.write) writeFileSync(file, text);
else process.stdout.write(text);
const failures = failuresOf(results);
for (const failure of failures) say(failure);
process.exitCode = failures.length === 0 ? 0 : 1;
