/** A running gateway: servers, store, spool and scorer, opened in order and closed in reverse. */
import { hostname } from 'node:os';
import { dirname, join } from 'node:path';
import type { Logger } from 'pino';
import type { Environment } from '../config/secrets.ts';
import type { Config } from '../contract/config.ts';
import { ConsortError } from '../contract/errors.ts';
import type { Store } from '../contract/store.ts';
import type { Catalog } from '../gateway/catalog.ts';
import { createAdmin } from '../gateway/admin.ts';
import { Generations } from '../gateway/generations.ts';
import { Admission } from '../gateway/limits/admission.ts';
import { Limits } from '../gateway/limits/limits.ts';
import { LoopDelay } from '../gateway/limits/loop-delay.ts';
import { KeptResponses } from '../gateway/kept-responses.ts';
import { Metrics } from '../gateway/metrics.ts';
import { protocols } from '../gateway/protocols/index.ts';
import { watchReleases } from '../gateway/release-metrics.ts';
import { createResolver } from '../gateway/resolve.ts';
import { ScorerMetrics } from '../gateway/scorer-metrics.ts';
import type { GatewayParts } from '../gateway/ports.ts';
import { createServer, drain, listen } from '../gateway/server.ts';
import { ToolTurns } from '../gateway/tool-turns.ts';
import { UnderWay } from '../gateway/under-way.ts';
import { verifiers } from '../scoring/rewards/index.ts';
import { openStore } from '../store/index.ts';
import { Spool } from '../store/spool.ts';
import { clock, newId, readSecret } from './natives.ts';
import { scorerSettings, startScorer } from './scorer.ts';
import { withProbed } from './probe.ts';
import type { Settings } from './settings.ts';
import { openShadow } from './shadow.ts';
import { catalogOf, countedBy, openSystem } from './system.ts';
import { version } from './version.ts';

export interface RunningGateway {
  readonly url: string;
  readonly adminUrl: string;
  /** Lets running requests finish, then closes everything in reverse order. Resolves to how many had to be ended. */
  readonly close: () => Promise<number>;
}

/** What is not in the store by then is replayed at the next start. */
const SPOOL_DRAIN_MS = 5_000;

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

/** Opens a gateway; on failure everything that was opened is closed again. */
export async function startGateway(
  { config, notice }: Settings,
  environment: Environment,
  logger: Logger,
): Promise<RunningGateway> {
  const closing = new Closing();
  try {
    const asked = config.server.probeAtStart ? await withProbed(config, logger) : config;
    return await open({ config: asked, notice }, environment, logger, closing);
  } catch (error) {
    await closing.run();
    throw error;
  }
}

/** The store and the spool before it: where outcomes go. */
async function openRecord({ store: config }: Config, metrics: Metrics, logger: Logger, closing: Closing) {
  const store = await openStore(config.url, {
    retentionMs: config.retentionDays * 86_400_000,
    onDown: (reason) => logger.warn({ reason }, 'the store does not answer; outcomes wait in the spool'),
    onUp: () => logger.info('the store answers'),
  });
  closing.add(() => store.close());
  const spool = Spool.open({
    directory: config.spoolDirectory,
    maxBytes: config.spoolMaxBytes,
    instance: hostname(),
    ledger: store.ledger,
    onDrop: (reason) => metrics.dropped(reason),
    onRetry: (error, delayMs) => logger.warn({ code: error.code, delayMs }, 'outcomes wait in the spool'),
  });
  metrics.watchSpool(spool);
  closing.add(() => spool.close(SPOOL_DRAIN_MS));
  return { store, spool };
}

/** Follows the live releases. A gateway that starts knows them before its first request, if the store answers. */
async function openGenerations(config: Config, { releases }: Store, logger: Logger, closing: Closing) {
  const generations = new Generations({
    config,
    build: catalogOf,
    releases,
    onChange: (policy, release) => {
      const about = { policy, version: release?.version ?? null, model: release?.servedAs };
      logger.info(about, 'new requests get another version of the policy');
    },
    onStale: (error) => {
      const { code } = ConsortError.from(error);
      logger.warn({ code }, 'the store does not say which releases are live; the versions in use stay');
    },
  });
  await generations.refresh();
  generations.follow();
  closing.add(() => generations.close());
  return generations;
}

function resolverFor({ server }: Config, catalog: () => Catalog) {
  return createResolver({
    catalog,
    protocols,
    verifiers: verifiers.map(({ id }) => id),
    inlinePlans: server.inlinePlans,
    maxStreamMs: server.maxStreamSeconds * 1000,
    newId,
  });
}

function openLimits({ auth, server }: Config, store: Store, metrics: Metrics, logger: Logger): Limits {
  const limits = new Limits({
    totals: { ...store.counters, ...store.places },
    clock,
    keys: auth.keys,
    mostMs: server.maxStreamSeconds * 1000,
    refuseWithoutStore: auth.withoutStore === 'refuse',
    onRefused: (limit) => metrics.limited(limit),
    onAway(isAway) {
      metrics.limitsAlone(isAway);
      const policy = auth.withoutStore;
      if (isAway) logger.warn({ policy }, 'the store does not answer for the limits of keys');
      else logger.info('the limits of keys are shared again');
    },
  });
  metrics.watchLimits(limits);
  return limits;
}

function openAdmission({ server }: Config, metrics: Metrics, closing: Closing): Admission {
  const delay = new LoopDelay(() => clock.elapsed());
  closing.add(() => Promise.resolve(delay.close()));
  metrics.watchLoop(delay);
  return new Admission({
    maxRuns: server.maxRuns,
    maxLoopDelayMs: server.maxLoopDelayMs,
    loopDelayMs: () => delay.ms,
    random: () => Math.random(),
    onShed: (reason) => metrics.shed(reason),
  });
}

async function open(
  { config, notice }: Settings,
  environment: Environment,
  logger: Logger,
  closing: Closing,
): Promise<RunningGateway> {
  const metrics = new Metrics(version);
  const { store, spool } = await openRecord(config, metrics, logger, closing);
  const secretFile = join(dirname(config.store.spoolDirectory), 'secret');
  const secret = readSecret(environment['CONSORT_SECRET'], secretFile);
  const limits = openLimits(config, store, metrics, logger);
  const system = openSystem(config, {
    secret,
    onOutcome(outcome) {
      metrics.observe(outcome);
      limits.spent(outcome);
      return spool.appendSoon({ kind: 'outcome', pool: outcome.plan.pool.id, outcome });
    },
    ...countedBy(metrics),
  });
  metrics.upstreams.watchCircuits(system);
  closing.add(system.close);
  const shadow = openShadow(config, system, store.counters, secret, metrics);
  closing.add(() => shadow.close());
  // With Redis the scorer is a process of its own, so that each can be scaled and restarted alone.
  if (store.kind === 'sqlite') {
    closing.add(startScorer(scorerSettings(config), new ScorerMetrics(metrics.registry), logger).close);
  }
  const generations = await openGenerations(config, store, logger, closing);
  watchReleases(metrics.registry, generations);
  const { catalog } = generations;
  const parts = {
    config,
    catalog,
    resolve: resolverFor(config, catalog),
    run: shadow.run,
    store,
    responses: new KeptResponses(store.turns),
    turns: new ToolTurns({ store: store.turns, onTurn: (result) => metrics.turned(result) }),
    recorder: { append: spool.append.bind(spool), find: spool.find.bind(spool) },
    admission: openAdmission(config, metrics, closing),
    limits,
    underWay: new UnderWay(),
    metrics,
    clock,
    newId,
    logger,
    notice,
  };
  return openServers(parts, closing);
}

/** The public and the admin server; ready once both listen. */
async function openServers(parts: GatewayParts, closing: Closing): Promise<RunningGateway> {
  const { metrics, underWay, logger } = parts;
  const { server } = parts.config;
  const app = await createServer(parts);
  let isReady = false;
  const admin = createAdmin(metrics.registry, { ready: () => isReady, started: () => true });
  closing.add(() => admin.close());
  closing.add(() => drain(app, server.drainSeconds * 1000, underWay));
  const adminUrl = await listen(admin, server.adminHost, server.adminPort);
  const url = await listen(app, server.host, server.port);
  isReady = true;
  return {
    url,
    adminUrl,
    async close() {
      isReady = false;
      metrics.draining();
      await closing.run();
      const { ended } = underWay;
      if (ended > 0) logger.warn({ requests: ended }, 'requests were ended before their answer was complete');
      return ended;
    },
  };
}
