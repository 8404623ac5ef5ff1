/** The metrics that rules and dashboards may speak of: those of the program, and those that the rules record. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Registry } from 'prom-client';
import { parse } from 'yaml';
import { watchProcess } from '../../src/gateway/process-metrics.ts';
import { ownMetrics } from '../docs/metrics-page.ts';
import { CHART } from './helm.ts';

export interface Rule {
  readonly record?: string;
  readonly alert?: string;
  readonly expr: string;
  readonly annotations?: Readonly<Record<string, string>>;
}

/** Labels that scraping adds. */
const OF_THE_TARGET = ['namespace', 'pod', 'le'];

export function rulesIn(file: 'recording' | 'alerts'): Rule[] {
  const text = readFileSync(join(CHART, `files/rules/${file}.yaml`), 'utf8');
  const { groups } = parse(text) as { groups: { rules: Rule[] }[] };
  return groups.flatMap(({ rules }) => rules);
}

/** Names that a query may use. */
export interface Vocabulary {
  readonly names: ReadonlySet<string>;
  readonly labels: ReadonlySet<string>;
}

export function vocabulary(): Vocabulary {
  const names = new Set<string>();
  const labels = new Set(OF_THE_TARGET);
  const ofTheProcess = new Registry();
  watchProcess(ofTheProcess, 'gateway', 'docs');
  for (const { name } of ofTheProcess.getMetricsAsArray()) names.add(name);
  for (const metric of ownMetrics()) {
    const suffixes = metric.type === 'histogram' ? ['_bucket', '_sum', '_count'] : [''];
    for (const suffix of suffixes) names.add(metric.name + suffix);
    for (const label of metric.labels) labels.add(label);
  }
  for (const { record } of rulesIn('recording')) if (record) names.add(record);
  return { names, labels };
}

function wordsIn(text: string, pattern: RegExp): string[] {
  return [...text.matchAll(pattern)].flatMap(([, list = '']) => list.split(',').map((word) => word.trim()));
}

/** The names and labels of a query that nothing has. */
export function strangersIn(query: string, { names, labels }: Vocabulary): string[] {
  const used = query.match(/\b(?:consort|nodejs|process)[_:][\w:]+/g) ?? [];
  const grouped = wordsIn(query, /\b(?:by|without|on|ignoring)\s*\(([^)]*)\)/g);
  const matched = wordsIn(query, /\{([^}]*)\}/g).map((matcher) => matcher.split(/[=!]/)[0] ?? '');
  return [
    ...used.filter((name) => !names.has(name)),
    ...[...grouped, ...matched].filter((label) => label !== '' && !labels.has(label)),
  ];
}
