/** docs/reference/metrics.md, drawn from the registries of gateway, scorer and learner. */
import { LearnerMetrics } from '../../src/gateway/learner-metrics.ts';
import { Metrics } from '../../src/gateway/metrics.ts';
import { watchReleases } from '../../src/gateway/release-metrics.ts';
import { ScorerMetrics } from '../../src/gateway/scorer-metrics.ts';
import { row } from './table.ts';

const INTRODUCTION = `# Metrics

The admin port serves them at \`/metrics\` in the Prometheus text format, beside the default metrics of the process and
of Node. Names end in their unit; labels hold configured names and fixed words only, never a user, a key or a prompt.
`;

/** Metrics of our own with type, labels and help; prom-client's defaults are not ours to describe. */
export function ownMetrics(): { name: string; type: string; labels: string[]; help: string }[] {
  const metrics = new Metrics('docs');
  void new ScorerMetrics(metrics.registry);
  void new LearnerMetrics(metrics.registry);
  metrics.watchSpool({ counters: { pending: 0, bytes: 0, replayed: 0 } });
  metrics.watchLoop({ ms: 0 });
  metrics.upstreams.watchCircuits({ circuits: () => [] });
  watchReleases(metrics.registry, { isStale: false, versions: new Map() });
  return metrics.registry
    .getMetricsAsArray()
    .filter(({ name }) => name.startsWith('consort_'))
    .map((metric) => {
      const { labelNames = [] } = metric as { labelNames?: string[] };
      return { name: metric.name, type: String(metric.type), labels: [...labelNames], help: metric.help };
    });
}

export function metricsPage(): string {
  const rows = ownMetrics().map(({ name, type, labels, help }) =>
    row(`\`${name}\``, type, labels.map((label) => `\`${label}\``).join(', '), help),
  );
  return [
    INTRODUCTION,
    row('Metric', 'Type', 'Labels', 'Meaning'),
    row('---', '---', '---', '---'),
    ...rows,
  ].join('\n');
}
