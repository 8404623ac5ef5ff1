/**
 * The tools of the chart, in a folder of packages of its own with a lockfile of its own: they are large, and who
 * never touches the chart never waits for them.
 */
import { execFileSync } from 'node:child_process';
import { statSync } from 'node:fs';
import { join } from 'node:path';

export const PACKAGES = join(import.meta.dirname, 'node_modules');

const modifiedAt = (file: string): number => statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0;

/** Installs what the lockfile says, unless that was done since it last changed. */
export function install(): void {
  const installedAt = modifiedAt(join(PACKAGES, '.package-lock.json'));
  if (installedAt > modifiedAt(join(import.meta.dirname, 'package-lock.json'))) return;
  const options = ['--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'];
  execFileSync('npm', ['ci', ...options], { cwd: import.meta.dirname, stdio: 'inherit' });
}

/** A package by its name at run time: the compiler has to do without them. */
export async function load<Module>(name: string): Promise<Module> {
  const loaded: unknown = await import(name);
  return loaded as Module;
}
