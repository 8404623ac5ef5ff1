/**
 * A gateway twice, a scorer, a learner and a Redis under traffic, while one of them after the other is killed.
 * Afterwards everything that was kept is counted again.
 */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { simulatedDocument } from '../../src/config/discover.ts';
import type { Estimate } from '../../src/contract/estimate.ts';
import { SCORER_GROUP } from '../../src/scoring/scorer.ts';
import type { Store } from '../../src/contract/store.ts';
import { openStore } from '../../src/store/index.ts';
import { startRedis } from '../../test/support/redis.ts';
import { Site } from '../../test/support/serve.ts';
import { publishedEstimates, stale } from './estimates.ts';
import { Party, type Kill, type Pause } from './party.ts';
import { type Recount, recount, storedSums, type Sums } from './recount.ts';
import { startTraining, type TrainingSide } from './training.ts';
import { Traffic } from './traffic.ts';

const SYSTEMS = ['vote', 'debate'];
/** The lease of a learner, and twice the time between two looks. */
const RECOVER_MS = 60_000;
const SETTLE_MS = 60_000;
const CALM_LOOKS = 5;
const FRESH_MS = 20_000;

export interface Options {
  readonly seed: number;
  readonly durationMs: number;
  readonly pauseMs: Pause;
  /** Of shadow runs, a day and system. */
  readonly usdPerDay: number;
  /** Whether a learner is one of the processes. */
  readonly learns: boolean;
}

export interface Findings {
  readonly names: readonly string[];
  readonly kills: readonly Kill[];
  readonly traffic: Traffic;
  readonly counted: Recount;
  readonly stored: ReadonlyMap<string, Sums>;
  readonly estimates: readonly Estimate[];
  readonly stale: readonly string[];
  /** Shadow prompts that were left out because the budget was reached, as the last gateways counted. */
  readonly refusedByBudget: number;
  /** What the learner’s trainer was given before each step. */
  readonly steps: readonly string[];
  readonly isBack: boolean;
  /** What lies in the spool after everything has ended. */
  readonly leftInSpool: readonly string[];
}

export async function runProcesses(options: Options): Promise<Findings> {
  const redis = await startRedis({ durable: true });
  const training = options.learns ? await startTraining(options.seed) : undefined;
  const site = new Site(documentFor(redis.url, options.usdPerDay, training));
  let store: Store | undefined;
  try {
    const party = await Party.start(site, redis, training);
    const traffic = new Traffic(() => party.gateways, options.seed);
    traffic.start();
    await party.killFor(options.durationMs, options.pauseMs, options.seed);
    await traffic.end();
    const isBack = await recovered(party);
    const steps = [...(training?.steps() ?? [])];
    store = await openStore(redis.url);
    const refusedByBudget = await refusals(party);
    await settled(store);
    await party.killScorer();
    await party.restartGateways();
    await settled(store);
    const counted = await recount(store);
    const estimates = await freshEstimates(party, counted);
    const stored = await storedSums(store);
    await party.end();
    return {
      names: party.names,
      kills: party.kills,
      traffic,
      counted,
      stored,
      estimates,
      stale: stale(estimates, counted.sums),
      refusedByBudget,
      steps,
      isBack,
      leftInSpool: readdirSync(join(site.directory, '.consort/spool')),
    };
  } finally {
    await store?.close();
    site.close();
    await training?.close();
    await redis.stop();
  }
}

function documentFor(url: string, usdPerDay: number, training?: TrainingSide): unknown {
  const document = simulatedDocument(false, false) as Record<'models' | 'pools', object[]> & {
    systems: { id: string }[];
  };
  const shadow = { fraction: 1, designs: { duel: 0.5, 'leave-one-out': 0.5 }, usdPerDay };
  const systems = document.systems
    .filter(({ id }) => SYSTEMS.includes(id))
    .map((system) => ({ ...system, shadow }));
  return {
    models: [...document.models, ...(training?.models ?? [])],
    pools: [...document.pools, ...(training?.pools ?? [])],
    systems: [...systems, ...(training?.systems ?? [])],
    trainers: training?.trainers ?? [],
    server: { port: 0, adminPort: 0 },
    store: { url },
  };
}

/** Whether everybody works again; a learner has to wait for the lease of the one that was killed. */
async function recovered(party: Party): Promise<boolean> {
  const late = performance.now() + RECOVER_MS;
  while (!party.hasRecovered && performance.now() < late) await sleep(100);
  return party.hasRecovered;
}

async function refusals({ gateways }: Party): Promise<number> {
  const pages = await Promise.all(
    gateways.map(async ({ adminUrl }) => (await fetch(`${adminUrl}/metrics`)).text()),
  );
  const lines = pages.join('\n').split('\n');
  const counts = lines.filter((line) => line.startsWith('consort_shadow_') && line.includes('"budget"'));
  return counts.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
}

/** Waits until the scorer has read and acknowledged everything, several looks in a row. */
async function settled({ ledger }: Store): Promise<void> {
  const late = performance.now() + SETTLE_MS;
  for (let calm = 0; calm < CALM_LOOKS;) {
    if (performance.now() > late) throw new Error(`the scorer was not done after ${SETTLE_MS} ms`);
    await sleep(100);
    const lags = await Promise.all((await ledger.pools()).map((pool) => ledger.lag(pool, SCORER_GROUP)));
    const isDone = lags.every(({ oldestUnreadAt, pending }) => oldestUnreadAt === null && pending === 0);
    calm = isDone ? calm + 1 : 0;
  }
}

/** The estimates as soon as they are those of all rewards, or as they are after a while. */
async function freshEstimates(party: Party, { sums }: Recount): Promise<Estimate[]> {
  const late = performance.now() + FRESH_MS;
  for (;;) {
    const estimates = await publishedEstimates(party.gateways[0]!.url);
    if (stale(estimates, sums).length === 0 || performance.now() > late) return estimates;
    await sleep(200);
  }
}
