import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import t from 'tap';

/**
 * Breaks every arrow and every purity rule once, in a copy of the house that holds nothing but the breaches, and
 * asks the real linter. The expectations restate the architecture; they are not drawn from the linter's table.
 */
const REPOSITORY = resolve(import.meta.dirname, '../..');
const OXLINT = join(REPOSITORY, 'node_modules/oxlint/bin/oxlint');

interface Case {
  readonly file: string;
  readonly source: string;
  /** Part of the one message that is expected; null for a control, which must pass. */
  readonly message: string | RegExp | null;
}
interface Diagnostic {
  readonly code: string;
  readonly message: string;
  readonly filename: string;
}

const cases: Case[] = [];
const ok = (file: string, source: string) => cases.push({ file, source, message: null });
const broken = (file: string, source: string, message: string | RegExp) =>
  cases.push({ file, source, message });
let serial = 0;
const fresh = (folder: string) => `${folder}/case-${(serial += 1)}.ts`;

// The arrows of docs/architecture.md, one row a room: who may be imported whole.
const ARROWS: Readonly<Record<string, readonly string[]>> = {
  contract: [],
  scoring: ['contract'],
  gateway: ['contract', 'scoring'],
  policy: ['contract'],
  store: ['contract'],
  config: ['contract'],
  cli: ['contract', 'scoring', 'gateway', 'policy', 'store', 'config'],
};
const rooms = Object.keys(ARROWS);
for (const from of rooms) {
  for (const to of rooms) {
    if (from === to) continue;
    const file = fresh(`src/${from}`);
    const source = `import type { Thing } from '../${to}/thing.ts';\nexport type Mine = Thing;\n`;
    if (ARROWS[from]?.includes(to)) ok(file, source);
    else broken(file, source, `src/${from} may not import src/${to}: `);
  }
  broken(fresh(`src/${from}`), `export * from '../main.ts';\n`, `src/${from} may not import src/main.ts: `);
  ok(fresh(`src/${from}`), `import type { Thing } from './thing.ts';\nexport type Mine = Thing;\n`);
}
ok('src/main.ts', `await import('./cli/serve.ts');\nexport const environment = process.env;\n`);

// The narrower places.
const typed = (path: string) => `import type { Thing } from '${path}';\nexport type Mine = Thing;\n`;
ok(fresh('src/policy'), typed('../scoring/statistics/moments.ts'));
broken(
  fresh('src/policy'),
  typed('../scoring/estimators/shapley.ts'),
  'src/policy may not import src/scoring/estimators',
);
ok(fresh('src/gateway/protocols'), typed('../../scoring/rewards/index.ts'));
ok(fresh('src/gateway/protocols'), typed('./protocol.ts'));
broken(
  fresh('src/gateway/protocols'),
  typed('../engine/run.ts'),
  'src/gateway/protocols may not import src/gateway',
);
broken(
  fresh('src/gateway/protocols'),
  typed('../../scoring/estimators/shapley.ts'),
  'may not import src/scoring/estimators',
);
broken(
  fresh('src/scoring/estimators'),
  typed('../scorer.ts'),
  'src/scoring/estimators may not import src/scoring',
);
ok(fresh('src/scoring/estimators'), typed('../statistics/moments.ts'));
ok(fresh('src/scoring/sweep'), typed('../estimators/shapley.ts'));

// However it is written and however deep the file lies.
const ledger =
  'src/gateway may not import src/store: take an interface of src/contract/store.ts as a parameter';
broken(fresh('src/gateway/plugins'), `import { ledger } from '../../store/ledger.ts';\nledger();\n`, ledger);
broken(fresh('src/gateway/a/b/c'), `export { ledger } from '../../../../store/ledger.ts';\n`, ledger);
broken(
  fresh('src/gateway/plugins'),
  `export const ledger = await import('../../store/ledger.ts');\n`,
  ledger,
);
broken(
  fresh('src/gateway/plugins'),
  `export type Ledger = import('../../store/ledger.ts').Ledger;\n`,
  ledger,
);
broken(
  fresh('src/gateway/plugins'),
  `export const url = new URL('../../store/thread.ts', import.meta.url);\n`,
  ledger,
);
ok(fresh('src/gateway/plugins'), typed('../store/own-folder.ts'));
broken(
  fresh('src/gateway'),
  `export const load = (name: string): Promise<unknown> => import(name);\n`,
  'Import by a literal path',
);
broken(
  fresh('src/gateway'),
  typed('../../test/support/redis.ts'),
  'reaches out of src to test/support/redis.ts',
);
broken(fresh('src/utils'), 'export const one = 1;\n', 'is in no room: move it into one of src/contract');

// Packages and built-in modules.
const PACKAGES: readonly (readonly [name: string, inside: string, outside: string])[] = [
  ['typebox', 'src/contract', ''],
  ['fastify', 'src/gateway/routes', 'src/cli'],
  ['fastify-plugin', 'src/gateway/plugins', 'src/cli'],
  ['@fastify/websocket', 'src/gateway/plugins', 'src/scoring'],
  ['prom-client', 'src/gateway/plugins', 'src/scoring'],
  ['undici', 'src/gateway/upstreams', 'src/gateway/engine'],
  ['undici', 'src/policy/trainers', 'src/policy'],
  ['undici', 'src/policy/serving', 'src/cli'],
  ['ioredis', 'src/store/redis', 'src/cli'],
  ['yaml', 'src/config', 'src/gateway'],
  ['pino', 'src/cli', 'src/store'],
  ['cephes', 'src/scoring/statistics', 'src/gateway'],
  ['node:sqlite', 'src/store/sqlite', 'src/cli'],
  ['node:fs', 'src/config', 'src/contract'],
  ['node:fs/promises', 'src/store', 'src/gateway/engine'],
  ['node:http', 'src/gateway', 'src/scoring'],
  ['node:child_process', 'src/cli', 'src/gateway'],
];
for (const [name, inside, outside] of PACKAGES) {
  ok(fresh(inside), typed(name));
  const stem = name.startsWith('@') ? '@fastify/*' : name.split('/', 1)[0];
  if (outside)
    broken(fresh(outside), typed(name), new RegExp(`may not import ${stem?.replace('*', '\\*')}: .{20}`));
}
broken(fresh('src/gateway'), typed('lodash'), 'lodash is no dependency of src');

// Purity: every forbidden thing once, in turn in every pure place.
const PURE = [
  'src/contract/pure.ts',
  'src/gateway/protocols/pure.ts',
  'src/scoring/rewards/pure.ts',
  'src/scoring/designs/pure.ts',
  'src/scoring/estimators/pure.ts',
  'src/scoring/statistics/pure.ts',
  'src/scoring/select.ts',
  'src/policy/groups.ts',
  'src/policy/advantages.ts',
  'src/policy/datums.ts',
  'src/policy/release/machine.ts',
  'src/policy/release/gate.ts',
];
const IMPURE: readonly (readonly [source: string, message: string])[] = [
  ['export const now = (): number => Date.now();', 'may not use Date.now: take a Clock'],
  [`export const now = (): unknown => Date['now']();`, 'may not use Date.now: take a Clock'],
  ['export const now = (): Date => new Date();', 'may not use Date.now: take a Clock'],
  ['export const now = (): string => Date();', 'may not use Date.now: take a Clock'],
  ['export const draw = (): number => Math.random();', 'may not use Math.random: take a Random'],
  [
    'const { random } = Math;\nexport const draw = (): number => random();',
    'may not use Math.random: take a Random',
  ],
  ['export const now = (): number => performance.now();', 'may not use performance: take a Clock'],
  [
    'export const later = (run: () => void) => setTimeout(run, 1);',
    'may not use setTimeout: pure code does not wait',
  ],
  ['export const later = (run: () => void) => setInterval(run, 1);', 'may not use setInterval'],
  ['export const later = (run: () => void) => setImmediate(run);', 'may not use setImmediate'],
  ['export const later = (run: () => void) => queueMicrotask(run);', 'may not use queueMicrotask'],
  ['export const stop = (): AbortSignal => AbortSignal.timeout(1);', 'may not use AbortSignal.timeout'],
  ['export const id = (): number => process.pid;', 'may not use process: take the value as a parameter'],
  ['export const home = (): unknown => process.env;', 'may not use process: take the value as a parameter'],
  [
    `export const get = (): Promise<Response> => fetch('http://a.test');`,
    'may not use fetch: take `ask` or `post`',
  ],
  [`export const say = (): void => console.log('here');`, 'may not use console: return the value'],
  ['export const id = (): string => crypto.randomUUID();', 'may not use crypto: take a Random'],
  ['export const now = (): number => globalThis.Date.now();', 'may not use globalThis: name what you mean'],
  [
    `import { createHash } from 'node:crypto';\nexport const hash = createHash;`,
    'is pure and may not import node:crypto',
  ],
  [
    `import { readFileSync } from 'node:fs';\nexport const read = readFileSync;`,
    'is pure and may not import node:fs',
  ],
  [
    `import { setTimeout } from 'node:timers/promises';\nexport const wait = setTimeout;`,
    'may not import node:timers',
  ],
];
for (const [index, [source, message]] of IMPURE.entries()) {
  const place = PURE[index % PURE.length] ?? '';
  // Pure files, unlike folders, exist once: their further breaches go into a folder.
  const file = index < PURE.length ? place : fresh('src/scoring/estimators');
  broken(file, `${source}\n`, message);
}
broken(
  fresh('src/gateway/protocols'),
  typed('pino'),
  'src/gateway/protocols is pure and may not import pino',
);
for (const folder of PURE.filter((path) => path.endsWith('/pure.ts')).map((path) => dirname(path))) {
  ok(
    fresh(folder),
    [
      'export const day = (at: number): string => new Date(at).toISOString();',
      'export const largest = (a: number, b: number): number => Math.max(a, b, Date.UTC(2026, 0));',
      'export const isDate = (value: unknown): value is Date => value instanceof Date;',
      'export const through = (performance: { now: () => number }): number => performance.now();',
      'export interface Handed { fetch: typeof fetch; process: string; console: Console }',
      'export const named = (handed: Handed): string => handed.process;\n',
    ].join('\n'),
  );
}

// The environment and the console have their places.
const env = `may not read process.env: take the value as a parameter; src/config reads the environment`;
broken(fresh('src/gateway'), `export const home = process.env['HOME'];\n`, env);
broken(fresh('src/store'), `const { env } = process;\nexport const home = env['HOME'];\n`, env);
ok(fresh('src/config'), `export const home = process.env['HOME'];\n`);
ok(fresh('src/cli'), `export const home = process.env['HOME'];\n`);
ok(fresh('src/gateway'), `export const id = process.pid;\n`);
broken(fresh('src/gateway'), `console.log('here');\n`, 'may not use console: take the function that logs');
for (const folder of ['src/cli', 'test', 'bench', 'examples/one', 'tools'])
  ok(fresh(folder), `console.log('here');\n`);

// The general rules that the project leans on, so that a change of the linter cannot lose one unseen.
const GENERAL: readonly (readonly [source: string, message: string | RegExp])[] = [
  ['export const wait = (): void => {\n  Promise.resolve(1);\n};', 'Promises must be awaited'],
  ['export const each = (all: number[]): void => all.forEach(async () => {});', 'Promise returned'],
  ['export const wait = async (): Promise<number> => await 1;', 'Unexpected `await` of a non-Promise'],
  [
    `type Way = 'left' | 'right';\nexport function turn(way: Way): number {\n  switch (way) {\n    case 'left':\n      return 1;\n  }\n  return 0;\n}`,
    'Switch is not exhaustive',
  ],
  ['export const open = (value: any): unknown => value;', 'Unexpected `any`'],
  ['// @ts-ignore\nexport const one: string = "1";', 'Use "@ts-expect-error" instead of @ts-ignore'],
  ['export const first = (all: number[]): number => all[0]!;', 'Forbidden non-null assertion'],
  ['export const parsed = JSON.parse("1");\nexport const one: number = parsed.one;', 'Unsafe member access'],
  ['// TODO: later\nexport const one = 1;', "Unexpected 'todo' comment"],
  [
    `${'// A line that does not count.\n'.repeat(300)}${'export {};\n'.repeat(301)}`,
    /too many lines \(301\)/,
  ],
  [
    `export function long(): number {\n  let sum = 0;\n${'  sum += 1;\n'.repeat(50)}  return sum;\n}`,
    'has too many lines',
  ],
];
for (const [source, message] of GENERAL) broken(fresh('src/gateway'), `${source}\n`, message);
// fastify awaits async handlers, and typebox is its own default export: these two rules misfire and are off.
ok(fresh('src/gateway'), `import Type from 'typebox';\nexport const text = Type.String();\n`);

t.test('the linter finds every breach, says what to do instead, and finds nothing else', (t) => {
  // Not tap's own directory: git ignores it, and the linter ignores what git does.
  const house = mkdtempSync(join(realpathSync(tmpdir()), 'consort-house-'));
  t.teardown(() => rmSync(house, { recursive: true }));
  for (const name of ['tools/lint', '.oxlintrc.json', 'tsconfig.json', 'package.json']) {
    cpSync(join(REPOSITORY, name), join(house, name), { recursive: true });
  }
  symlinkSync(join(REPOSITORY, 'node_modules'), join(house, 'node_modules'));
  for (const { file, source } of cases) {
    mkdirSync(dirname(join(house, file)), { recursive: true });
    writeFileSync(join(house, file), source);
  }
  const linter = [process.execPath, OXLINT, '--type-aware', '--format', 'json'];
  // Through `env`, because tap gives every child its loader by NODE_OPTIONS, and the linter cannot run under it.
  const run = spawnSync(
    'env',
    ['-u', 'NODE_OPTIONS', ...linter, 'src', 'test', 'bench', 'examples', 'tools'],
    {
      cwd: house,
      encoding: 'utf8',
      maxBuffer: 64 * 1024 * 1024,
    },
  );
  const { diagnostics } = JSON.parse(run.stdout) as { diagnostics: Diagnostic[] };
  t.equal(run.status, 1, `oxlint fails${run.stderr}`);

  const found = Map.groupBy(diagnostics, ({ filename }) => filename.replaceAll('\\', '/'));
  for (const { file, source, message } of cases) {
    const here = found.get(file) ?? [];
    const messages = here.map((one) => one.message);
    if (message === null) t.strictSame(messages, [], `${file} is clean: ${source}`);
    else {
      const hit = messages.some((text) =>
        typeof message === 'string' ? text.includes(message) : message.test(text),
      );
      t.ok(hit, `${file} is told "${String(message)}": ${source}`, { source, messages });
      t.ok(here.filter(({ code }) => code.startsWith('consort')).length <= 1, `${file} is told once`, {
        messages,
      });
    }
  }
  t.end();
});
