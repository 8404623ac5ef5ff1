/** consort learn: trains the policies of all systems round by round, and takes what they learned to the clients. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Config } from '../contract/config.ts';
import { ConsortError } from '../contract/errors.ts';
import type { Release } from '../contract/release.ts';
import type { Store } from '../contract/store.ts';
import { createAdmin } from '../gateway/admin.ts';
import { LearnerMetrics } from '../gateway/learner-metrics.ts';
import { drain, listen } from '../gateway/server.ts';
import { openStore } from '../store/index.ts';
import type { Command } from './command.ts';
import { createLogger } from './logger.ts';
import { clock } from './natives.ts';
import { untilSignal } from './serve.ts';
import { loadSettings } from './settings.ts';
import { Training } from './training/index.ts';
import { trainedSystem, type TrainedSystem } from './training/trained-system.ts';
import { version } from './version.ts';

/** Between two looks at the fleet and at releases that wait; also the pause after an error. */
const LOOK_MS = 10_000;
/** How long a trainer that is away keeps a round waiting: the next round tries again. */
const PATIENCE_MS = 5_000;

interface LearnParts {
  readonly config: Config;
  readonly store: Store;
  readonly secret: string | undefined;
  readonly metrics: LearnerMetrics;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

/** One system's policy, until the signal. Whatever fails is tried again: run, releases and fleet know where they are. */
async function learnSystem(system: TrainedSystem, parts: LearnParts): Promise<void> {
  const { metrics, logger, signal } = parts;
  const { policy, everyMinutes } = system.train;
  metrics.announce(policy, clock.now());
  let nextAt = clock.elapsed();
  while (!signal.aborted) {
    let pauseMs = LOOK_MS;
    try {
      const startedAt = clock.elapsed();
      if (await round(system, startedAt >= nextAt, parts)) {
        nextAt = startedAt + everyMinutes * 60_000;
        pauseMs = Math.min(LOOK_MS, Math.max(0, nextAt - clock.elapsed()));
      }
    } catch (error) {
      // What is cut off by the signal fails because of it, and is taken up by the next learner.
      if (signal.aborted) return;
      const known = ConsortError.from(error);
      metrics.failed(policy, known.code);
      logger.warn({ ...known.toBody(), system: system.id, policy }, 'a round of the learner failed');
    }
    await sleep(pauseMs, undefined, { signal }).catch(() => undefined);
  }
}

/** Whether a round of training was finished; without one due, only releases and fleet are looked after. */
async function round(system: TrainedSystem, isDue: boolean, parts: LearnParts): Promise<boolean> {
  const { config, store, secret, signal } = parts;
  const run = `${system.id}-${system.train.policy}`.replaceAll('.', '_');
  await using closing = new AsyncDisposableStack();
  const training = new Training(config, system, { store, secret, signal, run, patienceMs: PATIENCE_MS });
  closing.defer(() => training.close());
  if (!(await training.hold())) return false;
  await training.controller.restore();
  // Before a round: what an earlier one left open would be superseded by what this one exports.
  await promote(training, parts);
  if (!isDue || !(await trainRound(training, run, parts))) return false;
  await promote(training, parts);
  return true;
}

/** Batches up to the next multiple of a round, and their export. */
async function trainRound(
  training: Training,
  run: string,
  { store, metrics, logger, signal }: LearnParts,
): Promise<boolean> {
  const { policy, steps } = training.system.train;
  const learner = await training.open();
  const isExported = async () => {
    const releases = await store.releases.list(policy);
    return releases.some(({ trainedOn }) => trainedOn.run === run && trainedOn.step === learner.step);
  };
  const done = learner.points.length;
  // A round that was cut off is finished; one that was finished and not exported is exported.
  const isWhole = done % steps === 0 && (learner.step === 0 || (await isExported()));
  const target = isWhole ? done + steps : Math.ceil(done / steps) * steps;
  for await (const point of learner.advance(target)) {
    metrics.batch(policy, point);
    logger.info({ policy, step: point.step, accepted: point.accepted, rewards: point.rewards }, 'a step');
  }
  if (signal.aborted || learner.points.length < target) return false;
  if (learner.step > 0 && !(await isExported())) {
    const release = await training.export(learner.step);
    tell(release, metrics, logger);
  }
  return true;
}

async function promote({ controller }: Training, { metrics, logger, signal }: LearnParts): Promise<void> {
  if (signal.aborted) return;
  const decided = await controller.advance();
  if (decided && decided.release.stage !== 'probed') tell(decided.release, metrics, logger);
}

function tell({ policy, version: number, stage, history }: Release, metrics: LearnerMetrics, logger: Logger) {
  metrics.moved(policy, stage);
  logger.info({ policy, version: number, stage, reason: history.at(-1)?.reason }, 'a release moved');
}

export const learn: Command = {
  name: 'learn',
  summary: 'the learner: trains the policies of all systems and releases what they learned',
  usage: '[--admin-port N] [--store URL]',
  options: { 'admin-port': { type: 'string' }, store: { type: 'string' } },
  async run(invocation) {
    const { environment, flags } = invocation;
    const { config } = await loadSettings(invocation);
    const systems = config.systems.filter(({ train }) => train).map(({ id }) => trainedSystem(config, id));
    if (systems.length === 0) {
      throw new ConsortError('usage', [
        'no system has a train section, so there is nothing to learn; docs/training.md shows the fields',
      ]);
    }
    const logger = createLogger(environment);
    const registry = LearnerMetrics.registry(version);
    const metrics = new LearnerMetrics(registry);
    const control = new AbortController();
    const { signal } = control;
    const store = await openStore(config.store.url);
    const admin = createAdmin(registry, { ready: () => !signal.aborted, started: () => true });
    const adminUrl = await listen(admin, config.server.adminHost, config.server.adminPort);
    const names = systems.map(({ id, train }) => `${train.policy} in ${id}`).join(', ');
    const line = flags['json']
      ? JSON.stringify({ adminUrl })
      : `consort learn: ${names}; metrics at ${adminUrl}`;
    process.stdout.write(`${line}\n`);
    const parts = { config, store, secret: environment['CONSORT_SECRET'], metrics, logger, signal };
    const work = Promise.all(systems.map((system) => learnSystem(system, parts)));
    await Promise.race([untilSignal(), work]);
    control.abort();
    await work;
    await store.close();
    await drain(admin, 1_000);
    return 0;
  },
};
