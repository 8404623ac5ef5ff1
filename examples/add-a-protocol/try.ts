/** Adds the protocol to a copy of this checkout and lets everything that guards a protocol look at it. */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { addProtocol } from './add.ts';

const CHECKOUT = resolve(import.meta.dirname, '../..');
const PARTS = [
  'bench',
  'examples',
  'docs',
  'src',
  'test',
  'tools',
  'package.json',
  'tsconfig.json',
  '.taprc',
  '.oxlintrc.json',
  '.prettierrc.json',
];
/** What no check looks at, and there is much of it. */
const LEFT_OUT = ['examples/tiny-team/node_modules', 'examples/tiny-team/models'].map((path) =>
  join(CHECKOUT, path),
);
const STEPS: readonly (readonly [command: string, ...args: string[]])[] = [
  ['node', 'tools/docs/write.ts'],
  ['tsc', '--noEmit'],
  [
    'oxlint',
    '--type-aware',
    '--deny-warnings',
    'src/gateway/protocols/shortest.ts',
    'test/gateway/shortest.test.ts',
  ],
  ['tap', 'test/gateway/shortest.test.ts', 'test/reference/protocols.test.ts'],
];

const copy = mkdtempSync(join(tmpdir(), 'add-a-protocol-'));
try {
  const filter = (path: string) => !LEFT_OUT.includes(path);
  for (const part of PARTS) cpSync(join(CHECKOUT, part), join(copy, part), { recursive: true, filter });
  symlinkSync(join(CHECKOUT, 'node_modules'), join(copy, 'node_modules'));
  for (const path of addProtocol(copy)) console.log(`touched ${path}`);
  const PATH = `${join(copy, 'node_modules/.bin')}:${process.env['PATH'] ?? ''}`;
  for (const [command, ...args] of STEPS) {
    const run = spawnSync(command, args, {
      cwd: copy,
      env: { ...process.env, PATH },
      encoding: 'utf8',
      timeout: 100_000,
    });
    const failed = run.status !== 0;
    console.log(`${failed ? 'failed' : 'passed'} ${command} ${args.join(' ')}`);
    if (!failed) continue;
    console.error(run.stdout, run.stderr);
    process.exitCode = 1;
    break;
  }
} finally {
  rmSync(copy, { recursive: true, force: true });
}
