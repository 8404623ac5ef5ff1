/** Starts the tiny team of the examples: installs its package once, then its server as a child process. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import Type from 'typebox';
import { Compile } from 'typebox/compile';
import { ConsortError } from '../../contract/errors.ts';

export const TINY_TEAM = fileURLToPath(new URL('../../../examples/tiny-team', import.meta.url));

const Ready = Compile(Type.Object({ baseUrl: Type.String() }, { additionalProperties: true }));

export interface TinyTeam {
  /** Up to and with /v1. */
  readonly baseUrl: string;
  readonly close: () => Promise<void>;
}

async function install(say: (line: string) => void): Promise<void> {
  if (existsSync(join(TINY_TEAM, 'node_modules', 'node-llama-cpp'))) return;
  say('Installing the example’s inference engine (about 85 MB, once) …');
  const child = spawn('npm', ['ci', '--omit=optional', '--no-audit', '--no-fund'], {
    cwd: TINY_TEAM,
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const [code] = (await once(child, 'exit')) as unknown[];
  if (code !== 0) throw new ConsortError('example_unusable', ['npm ci failed in examples/tiny-team']);
}

/** @throws `example_unusable` when it is not there, cannot be installed or does not start */
export async function startTinyTeam(say: (line: string) => void): Promise<TinyTeam> {
  if (!existsSync(join(TINY_TEAM, 'server.ts'))) {
    throw new ConsortError('example_unusable', ['examples/tiny-team is not part of the package']);
  }
  await install(say);
  const child = spawn(process.execPath, [join(TINY_TEAM, 'server.ts')], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const line = await firstLine(child);
  const ready: unknown = JSON.parse(line);
  if (!Ready.Check(ready)) throw new ConsortError('example_unusable', [`it said ${line}`]);
  return {
    baseUrl: ready.baseUrl,
    async close() {
      const gone = once(child, 'exit');
      child.kill('SIGTERM');
      await gone;
    },
  };
}

async function firstLine(child: ChildProcess): Promise<string> {
  if (!child.stdout) throw new TypeError('the child has no standard output');
  const line = once(createInterface({ input: child.stdout }), 'line');
  const died = once(child, 'exit').then(([code]) => {
    throw new ConsortError('example_unusable', [`its server ended with code ${String(code)}`]);
  });
  died.catch(() => undefined);
  const [first] = (await Promise.race([line, died])) as unknown[];
  return String(first);
}
