import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import t from 'tap';
import Schema from 'typebox/schema';
import { parse } from 'yaml';
import { dashboardProblems } from '../../tools/chart/dashboards.ts';
import { generated } from '../../tools/chart/generated.ts';
import { CHART } from '../../tools/chart/helm.ts';
import { rulesIn, strangersIn, vocabulary } from '../../tools/chart/metrics.ts';
import { restrictedProblems } from '../../tools/chart/restricted.ts';

/** The parts of `npm run check:chart` that need nothing installed, and that its checks find what they look for. */
const REPOSITORY = resolve(import.meta.dirname, '../..');
const read = (file: string) => readFileSync(join(CHART, file), 'utf8');
const words = vocabulary();
const strangers = (query: string) => strangersIn(query, words);

t.test('the generated files are those of the current code', async (t) => {
  for (const { path, text } of await generated()) {
    t.equal(readFileSync(path, 'utf8'), text, `${path}: node tools/chart/write.ts writes it`);
  }
});

t.test('the schema knows the values of the chart, and nothing else', (t) => {
  const schema = Schema.Compile(JSON.parse(read('values.schema.json')));
  const values = parse(read('values.yaml'));
  t.same(schema.Errors(values)[1], []);
  t.notOk(schema.Check({ ...values, gatewya: {} }));
  t.notOk(schema.Check({ ...values, config: { server: { port: 80 } } }));
  t.end();
});

t.test('rules and dashboard speak of metrics that there are', (t) => {
  for (const { expr } of [...rulesIn('recording'), ...rulesIn('alerts')]) t.same(strangers(expr), []);
  const board = JSON.parse(read('files/dashboards/consort.json'));
  t.same(
    dashboardProblems(board, () => true, strangers),
    [],
  );
  t.end();
});

t.test('every alert is explained and tested', (t) => {
  const page = readFileSync(join(REPOSITORY, 'docs/operations.md'), 'utf8');
  const tests = ['alerts', 'alerts-over-days']
    .map((file) => readFileSync(join(import.meta.dirname, `${file}.yaml`), 'utf8'))
    .join('');
  for (const { alert, annotations } of rulesIn('alerts')) {
    t.ok(alert && page.includes(`\`${alert}\``), `${alert} is in docs/operations.md`);
    t.ok(alert && tests.includes(`alertname: ${alert}`), `${alert} is tested`);
    t.match(Object.keys(annotations ?? {}), ['summary', 'description']);
  }
  t.end();
});

t.test('the checks find what is wrong', (t) => {
  t.same(strangers('sum by (pod) (consort_request_total{tenant="a"})'), ['consort_request_total', 'tenant']);
  const panel = { id: 1, type: 'timeseries', title: 'Up', targets: [{ expr: 'process_up' }] };
  const board = { panels: [panel, panel] };
  t.match(
    dashboardProblems(board, () => false, strangers).join('\n'),
    /source.*unit.*read.*PromQL.*namespaces.*process_up/s,
  );
  const spec = { template: { spec: { hostNetwork: true, containers: [{ name: 'open' }] } } };
  const pod = { apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name: 'open' }, spec };
  t.equal(restrictedProblems(pod).length, 8);
  t.end();
});
