/**
 * npm run check:chart. Renders the chart with Helm 3 and Helm 4 and holds the manifests against the schemas of
 * Kubernetes, the program's own configuration, and what the chart promises; then rules and dashboard.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse } from 'yaml';
import { known } from '../../src/cli/known.ts';
import { checkDocument } from '../../src/config/check.ts';
import { dashboardProblems, openGrammar, type Dashboard } from './dashboards.ts';
import { CASES, disappointment, promiseProblems } from './expectations.ts';
import { CHART, openHelm, type Helm } from './helm.ts';
import { manifestsIn, strictProblems, type Manifest } from './manifests.ts';
import { rulesIn, strangersIn, vocabulary } from './metrics.ts';
import { install } from './packages.ts';
import { alertProblems, hasPromtool, ruleProblems } from './promtool.ts';
import { restrictedProblems } from './restricted.ts';

/** The oldest that the chart installs on, and a recent one. */
const KUBERNETES = ['1.30.0', '1.35.0'];
const MINIMAL = join(CHART, 'ci/minimal-values.yaml');
const VALUES = [MINIMAL, join(CHART, 'ci/full-values.yaml')];
const REFUSED = join(CHART, 'ci/refused');

let failures = 0;
function report(step: string, problems: readonly string[]): void {
  console.log(`${problems.length === 0 ? 'ok    ' : 'FAILED'} ${step}`);
  for (const problem of problems) console.log(`       ${problem.replaceAll('\n', '\n       ')}`);
  failures += problems.length;
}

/** Everything that one Helm renders, as one text a file of values. */
function rendered(helm: Helm): string[] {
  const problems: string[] = [];
  const texts = VALUES.flatMap((values) => {
    const linted = helm.lint([values]);
    if (!linted.ok) problems.push(linted.text);
    return KUBERNETES.map((version) => {
      const { ok, text } = helm.template([values], version);
      if (!ok) problems.push(text);
      return text;
    });
  });
  report(
    `${helm.name} lints and renders ${VALUES.length} sets of values for ${KUBERNETES.join(' and ')}`,
    problems,
  );
  return texts;
}

function refusals(helm: Helm): void {
  const files = readdirSync(REFUSED).filter((file) => file.endsWith('.yaml'));
  const problems = files.flatMap((file) => {
    const path = join(REFUSED, file);
    const [, expected = ''] = /^# expect: (.+)$/m.exec(readFileSync(path, 'utf8')) ?? [];
    const { ok, text } = helm.template([MINIMAL, path], '1.35.0');
    if (ok) return [`${file} is accepted`];
    return expected && new RegExp(expected, 'i').test(text) ? [] : [`${file}: no "${expected}" in: ${text}`];
  });
  report(`${helm.name} refuses ${files.length} bad sets of values, and says why`, problems);
}

function promises(helm: Helm): void {
  const folder = mkdtempSync(join(tmpdir(), 'consort-values-'));
  const file = join(folder, 'values.yaml');
  const problems = CASES.flatMap((expected) => {
    writeFileSync(file, expected.when);
    const { ok, text } = helm.template([MINIMAL, file], '1.35.0');
    return ok ? disappointment(expected, manifestsIn(text)) : [text];
  });
  rmSync(folder, { recursive: true });
  report(`${helm.name} renders what ${CASES.length} expectations say`, problems);
}

/** The program reads the file that the chart writes. */
function configProblems(manifests: readonly Manifest[]): string[] {
  return manifests.flatMap((manifest) => {
    const { 'consort.yaml': text } = (manifest['data'] ?? {}) as Record<string, string>;
    if (text === undefined) return [];
    const document: unknown = parse(text.replace('${CONSORT_STORE_URL}', 'redis://redis:6379'));
    return checkDocument(document, known).problems.map(({ path, message }) => `${path}: ${message}`);
  });
}

install();
const helms = [await openHelm('helm-3'), await openHelm('helm-4')];
const [three = [], four = []] = helms.map(rendered);
report('both render the same', three.join('') === four.join('') ? [] : ['their manifests differ']);
for (const helm of helms) {
  refusals(helm);
  promises(helm);
}

const manifests = manifestsIn([...new Set(four)].join('\n---\n'));
report(`${manifests.length} manifests are valid, field by field`, await strictProblems(manifests));
report('every pod is restricted', manifests.flatMap(restrictedProblems));
report('no secret is made, and no pod label changes with a version', promiseProblems(manifests));
report('the program reads its configuration', configProblems(manifests));

const words = vocabulary();
const strangers = (query: string) => strangersIn(query, words);
const rules = [...rulesIn('recording'), ...rulesIn('alerts')];
report(
  `${rules.length} rules ask for metrics that there are`,
  rules.flatMap(({ expr }) => strangers(expr)),
);
const board = JSON.parse(readFileSync(join(CHART, 'files/dashboards/consort.json'), 'utf8')) as Dashboard;
report(`${board.panels.length} panels work`, dashboardProblems(board, await openGrammar(), strangers));
if (hasPromtool()) {
  report('promtool accepts the rules, as files and as rendered', ruleProblems(manifests));
  report('the alerts fire when they should, and only then', alertProblems());
} else console.log('skip   promtool is not here (Debian: apt-get install prometheus): no alert was tested');

process.exitCode = failures > 0 ? 1 : 0;
