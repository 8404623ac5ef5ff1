/** A running gateway: servers, store, spool and scorer, opened in order and closed in reverse. */
import { hostname } from 'node:os';
import { dirname, join } from 'node:path';
import type { AddressInfo } from 'node:net';
import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import type { Environment } from '../config/secrets.ts';
import { ConsortError } from '../contract/errors.ts';
import { createAdmin } from '../gateway/admin.ts';
import { Metrics } from '../gateway/metrics.ts';
import { protocols } from '../gateway/protocols/index.ts';
import { createResolver } from '../gateway/resolve.ts';
import { createServer } from '../gateway/server.ts';
import { verifiers } from '../scoring/rewards/index.ts';
import { openStore } from '../store/index.ts';
import { Spool } from '../store/spool.ts';
import { clock, newId, readSecret } from './natives.ts';
import { startScorer } from './scorer.ts';
import type { Settings } from './settings.ts';
import { openSystem } from './system.ts';
import { version } from './version.ts';

export interface RunningGateway {
  readonly url: string;
  readonly adminUrl: string;
  /** Lets running requests finish, then closes everything in reverse order. */
  readonly close: () => Promise<void>;
}

/** What was opened, to be closed last to first. */
class Closing {
  readonly #steps: (() => Promise<unknown>)[] = [];
  add(step: () => Promise<unknown>): void {
    this.#steps.push(step);
  }
  async run(): Promise<void> {
    for (const step of this.#steps.toReversed()) await step();
    this.#steps.length = 0;
  }
}

async function listen(app: FastifyInstance, host: string, port: number): Promise<string> {
  try {
    await app.listen({ host, port });
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EADDRINUSE') {
      throw new ConsortError('port_taken', [port, host], { cause: error });
    }
    throw error;
  }
  const address = app.server.address() as AddressInfo;
  const name = address.family === 'IPv6' ? `[${address.address}]` : address.address;
  return `http://${name === '0.0.0.0' ? '127.0.0.1' : name}:${address.port}`;
}

/** Opens a gateway; on failure everything that was opened is closed again. */
export async function startGateway(
  { config, notice }: Settings,
  environment: Environment,
  logger: Logger,
): Promise<RunningGateway> {
  const closing = new Closing();
  try {
    return await open({ config, notice }, environment, logger, closing);
  } catch (error) {
    await closing.run();
    throw error;
  }
}

async function open(
  { config, notice }: Settings,
  environment: Environment,
  logger: Logger,
  closing: Closing,
): Promise<RunningGateway> {
  const metrics = new Metrics(version);
  const store = await openStore(config.store.url, {
    retentionMs: config.store.retentionDays * 86_400_000,
    onDown: (reason) => logger.warn({ reason }, 'the store does not answer; outcomes wait in the spool'),
    onUp: () => logger.info('the store answers'),
  });
  closing.add(() => store.close());
  const spool = Spool.open({
    directory: config.store.spoolDirectory,
    maxBytes: config.store.spoolMaxBytes,
    instance: hostname(),
    ledger: store.ledger,
    onDrop: (reason) => metrics.dropped(reason),
    onRetry: (error, delayMs) => logger.warn({ code: error.code, delayMs }, 'outcomes wait in the spool'),
  });
  metrics.watchSpool(spool);
  closing.add(() => spool.close(5_000));

  const secretFile = join(dirname(config.store.spoolDirectory), 'secret');
  const system = openSystem(config, {
    secret: readSecret(environment['CONSORT_SECRET'], secretFile),
    onOutcome(outcome) {
      spool.append({ kind: 'outcome', pool: outcome.plan.pool.id, outcome });
      metrics.observe(outcome);
    },
    onRetry: (alias, code) => metrics.retried(alias, code),
  });
  closing.add(system.close);
  const scorer = startScorer(config, logger);
  closing.add(scorer.close);

  const { server } = config;
  const resolve = createResolver({
    catalog: system.catalog,
    protocols,
    verifiers: verifiers.map(({ id }) => id),
    inlinePlans: server.inlinePlans,
    maxStreamMs: server.maxStreamSeconds * 1000,
    newId,
  });
  const { catalog, run } = system;
  const recorder = { append: spool.append.bind(spool), find: spool.find.bind(spool) };
  const app = await createServer({
    config,
    catalog,
    resolve,
    run,
    store,
    recorder,
    metrics,
    clock,
    newId,
    logger,
    notice,
  });
  let ready = false;
  const admin = createAdmin(metrics, { ready: () => ready, started: () => true });
  closing.add(() => admin.close());
  closing.add(() => app.close());
  const adminUrl = await listen(admin, server.adminHost, server.adminPort);
  const url = await listen(app, server.host, server.port);
  ready = true;
  return {
    url,
    adminUrl,
    async close() {
      ready = false;
      metrics.draining();
      await closing.run();
    },
  };
}
