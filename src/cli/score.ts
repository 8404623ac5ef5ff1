/** consort score: the scorer as a process of its own, for deployments with Redis. */
import { createAdmin } from '../gateway/admin.ts';
import { ScorerMetrics } from '../gateway/scorer-metrics.ts';
import { drain, listen } from '../gateway/server.ts';
import type { Command } from './command.ts';
import { createLogger } from './logger.ts';
import { runScorer } from './run-scorer.ts';
import { scorerEvents, scorerSettings } from './scorer.ts';
import { untilSignal } from './serve.ts';
import { loadSettings } from './settings.ts';
import { version } from './version.ts';

export const score: Command = {
  name: 'score',
  summary: 'the scorer alone: rewards, tallies and estimates, for a cluster on Redis',
  usage: '[--admin-port N] [--store URL]',
  options: { 'admin-port': { type: 'string' }, store: { type: 'string' } },
  async run(invocation) {
    const { config } = await loadSettings(invocation);
    const logger = createLogger(invocation.environment);
    const registry = ScorerMetrics.registry(version);
    const control = new AbortController();
    const admin = createAdmin(registry, { ready: () => !control.signal.aborted, started: () => true });
    const adminUrl = await listen(admin, config.server.adminHost, config.server.adminPort);
    const events = scorerEvents(new ScorerMetrics(registry), logger);
    const work = runScorer(scorerSettings(config), control.signal, events);
    const line = invocation.flags['json']
      ? JSON.stringify({ adminUrl })
      : `consort score: metrics at ${adminUrl}`;
    process.stdout.write(`${line}\n`);
    await Promise.race([untilSignal(), work]);
    control.abort();
    await work;
    await drain(admin, 1_000);
    return 0;
  },
};
