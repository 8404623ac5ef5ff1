/** The scorer, in a thread of the gateway or in a process of its own: the same work, told to the same metrics. */
import { Worker } from 'node:worker_threads';
import type { Logger } from 'pino';
import type { Config } from '../contract/config.ts';
import { ConsortError, type ErrorBody } from '../contract/errors.ts';
import type { Estimate } from '../contract/estimate.ts';
import type { Lag } from '../contract/store.ts';
import type { ScorerMetrics } from '../gateway/scorer-metrics.ts';
import type { Handled, ScorerEvents } from '../scoring/scorer.ts';
import { clock } from './natives.ts';

/** What a scorer is started with: where the store is and who is in which pool. */
export interface ScorerSettings {
  readonly storeUrl: string;
  readonly retentionMs: number;
  readonly players: Readonly<Record<string, readonly string[]>>;
  readonly publishMs: number;
}

/** What the thread reports. */
export type ScorerMessage =
  | { readonly handled: Readonly<Partial<Record<Handled, number>>> }
  | { readonly published: readonly Estimate[] }
  | { readonly pool: string; readonly lag: Lag }
  | { readonly error: ErrorBody['error'] };

/** A thread that dies is started again after this pause. */
const RESTART_MS = 1_000;
const PUBLISH_MS = 1_000;

export function scorerSettings({ models, pools, systems, store }: Config): ScorerSettings {
  const members = new Map(pools.map((pool) => [pool.id, pool.members]));
  const players = Object.fromEntries([
    ...models.map(({ id }): [string, string[]] => [id, [id]]),
    ...systems.map(({ id, pool }): [string, string[]] => [id, members.get(pool) ?? []]),
  ]);
  return {
    storeUrl: store.url,
    retentionMs: store.retentionDays * 86_400_000,
    players,
    publishMs: PUBLISH_MS,
  };
}

/** Counts, shows and logs what a scorer tells. */
export function scorerEvents(metrics: ScorerMetrics, logger: Logger): ScorerEvents {
  return {
    onHandled: (result) => metrics.handled(result),
    onPublished: (estimates) => metrics.published(estimates),
    onLag: (pool, lag) => metrics.lag(pool, lag, clock.now()),
    onError: (error) => logger.warn(ConsortError.from(error).toBody(), 'the scorer met an error'),
  };
}

export interface ScorerThread {
  readonly close: () => Promise<void>;
}

export function startScorer(settings: ScorerSettings, metrics: ScorerMetrics, logger: Logger): ScorerThread {
  let isClosing = false;
  let worker: Worker;
  let restart: NodeJS.Timeout | undefined;
  const receive = (message: ScorerMessage) => {
    if ('handled' in message) {
      for (const [result, count] of Object.entries(message.handled)) metrics.handled(result, count);
    } else if ('published' in message) metrics.published(message.published);
    else if ('lag' in message) metrics.lag(message.pool, message.lag, clock.now());
    else logger.warn(message, 'the scorer met an error');
  };
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
  const start = () => {
    worker = new Worker(new URL(`./scorer-thread.${extension}`, import.meta.url), { workerData: settings });
    worker.on('message', receive);
    worker.on('error', (error) => logger.error({ err: error }, 'the scorer thread failed'));
    worker.on('exit', () => {
      if (!isClosing) restart = setTimeout(start, RESTART_MS);
    });
  };
  start();
  return {
    async close() {
      isClosing = true;
      clearTimeout(restart);
      const ended = new Promise<void>((resolve) => worker.once('exit', () => resolve()));
      worker.postMessage('stop');
      const late = setTimeout(() => void worker.terminate(), 5_000);
      await ended;
      clearTimeout(late);
    },
  };
}
