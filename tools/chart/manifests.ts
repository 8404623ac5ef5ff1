/**
 * Strict checks of rendered manifests: compiled JSON schemas find wrong types and missing fields, and the compiler,
 * given each manifest as a literal of its type, finds fields that do not exist, which schemas let pass.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { parseAllDocuments } from 'yaml';
import { load, PACKAGES } from './packages.ts';

export interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly [field: string]: unknown;
}

type Models = Readonly<Record<string, new (manifest: Manifest) => { validate: () => void }>>;

const TSC = resolve(import.meta.dirname, '../../node_modules/.bin/tsc');

export const nameOf = ({ kind, metadata }: Manifest): string => `${kind}/${metadata.name}`;

export function manifestsIn(text: string): Manifest[] {
  return parseAllDocuments(text)
    .map((document) => document.toJS() as Manifest | null)
    .filter((manifest) => manifest !== null);
}

function packageOf(apiVersion: string): string {
  return apiVersion.startsWith('monitoring.coreos.com/')
    ? `@kubernetes-models/prometheus-operator/${apiVersion}`
    : `kubernetes-models/${apiVersion}`;
}

export async function strictProblems(manifests: readonly Manifest[]): Promise<string[]> {
  const problems: string[] = [];
  for (const manifest of manifests) {
    const models = await load<Models>(packageOf(manifest.apiVersion));
    const Model = models[manifest.kind];
    if (!Model) {
      problems.push(`${nameOf(manifest)}: ${manifest.apiVersion} knows no such kind`);
      continue;
    }
    try {
      new Model(manifest).validate();
    } catch (error) {
      problems.push(`${nameOf(manifest)}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  return [...problems, ...unknownFields(manifests)];
}

function unknownFields(manifests: readonly Manifest[]): string[] {
  const literals = manifests.map((manifest, index) => {
    const type = `import('${packageOf(manifest.apiVersion)}').I${manifest.kind}`;
    return `export const manifest${index}: ${type} = ${JSON.stringify(manifest, null, 1)};\n`;
  });
  const folder = join(PACKAGES, '.strict');
  mkdirSync(folder, { recursive: true });
  const file = join(folder, 'manifests.ts');
  writeFileSync(file, literals.join(''));
  const options = ['--ignoreConfig', '--noEmit', '--strict', '--skipLibCheck', '--types', ''];
  const target = ['--target', 'es2024', '--module', 'nodenext'];
  const { status, stdout } = spawnSync(TSC, [...options, ...target, file], { encoding: 'utf8' });
  return status === 0 ? [] : stdout.trim().split('\n');
}
