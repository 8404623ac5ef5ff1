/** The rules, by the tool of Prometheus itself: their syntax as files and as rendered, and the tests of the alerts. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { stringify } from 'yaml';
import { CHART } from './helm.ts';
import type { Manifest } from './manifests.ts';

const TESTS = resolve(import.meta.dirname, '../../test/chart');

export const hasPromtool = (): boolean => spawnSync('promtool', ['--version']).error === undefined;

function problemsOf(...args: readonly string[]): string[] {
  const { status, stdout, stderr } = spawnSync('promtool', args, { encoding: 'utf8' });
  return status === 0 ? [] : [`${stdout}${stderr}`.trim()];
}

export function ruleProblems(manifests: readonly Manifest[]): string[] {
  const folder = mkdtempSync(join(tmpdir(), 'consort-rules-'));
  const rendered = join(folder, 'rendered.yaml');
  const spec = manifests.find(({ kind }) => kind === 'PrometheusRule')?.['spec'];
  writeFileSync(rendered, stringify(spec));
  const files = ['recording', 'alerts'].map((file) => join(CHART, `files/rules/${file}.yaml`));
  const problems = problemsOf('check', 'rules', ...files, rendered);
  rmSync(folder, { recursive: true });
  return problems;
}

export function alertProblems(): string[] {
  const files = ['alerts', 'alerts-over-days'].map((file) => join(TESTS, `${file}.yaml`));
  return problemsOf('test', 'rules', ...files);
}
