/** What every process tells about itself, whatever it does. */
import { collectDefaultMetrics, Gauge, type Registry } from 'prom-client';

/** Gauges that are named like counters: promtool, and whoever takes a rate of them, is misled. */
const MISNAMED = [
  'nodejs_active_resources_total',
  'nodejs_active_handles_total',
  'nodejs_active_requests_total',
];

/** The default metrics of a Node process, and `consort_build_info`. */
export function watchProcess(
  registry: Registry,
  component: 'gateway' | 'scorer' | 'learner',
  version: string,
): void {
  collectDefaultMetrics({ register: registry });
  for (const name of MISNAMED) registry.removeSingleMetric(name);
  const info = new Gauge({
    name: 'consort_build_info',
    help: 'Always 1; the labels say what runs.',
    labelNames: ['version', 'node', 'component'],
    registers: [registry],
  });
  info.set({ version, node: process.versions.node, component }, 1);
}
