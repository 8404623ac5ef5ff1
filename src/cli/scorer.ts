/** The scorer in a thread of its own, so that grading and sums never hold up a token. */
import { Worker } from 'node:worker_threads';
import type { Logger } from 'pino';
import type { Config } from '../contract/config.ts';

/** What the thread is started with: no secrets, only where the store is and who is in which pool. */
export interface ScorerData {
  readonly storeUrl: string;
  readonly retentionMs: number;
  readonly players: Readonly<Record<string, readonly string[]>>;
  readonly publishMs: number;
}

/** A thread that dies is started again after this pause. */
const RESTART_MS = 1_000;
const PUBLISH_MS = 1_000;

export interface ScorerThread {
  readonly close: () => Promise<void>;
}

export function startScorer(config: Config, logger: Logger): ScorerThread {
  const pools = new Map(config.pools.map(({ id, members }) => [id, members]));
  const players = Object.fromEntries([
    ...config.models.map(({ id }): [string, string[]] => [id, [id]]),
    ...config.systems.map(({ id, pool }): [string, string[]] => [id, pools.get(pool) ?? []]),
  ]);
  const workerData: ScorerData = {
    storeUrl: config.store.url,
    retentionMs: config.store.retentionDays * 86_400_000,
    players,
    publishMs: PUBLISH_MS,
  };
  let closing = false;
  let worker: Worker;
  let restart: NodeJS.Timeout | undefined;
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
  const start = () => {
    worker = new Worker(new URL(`./scorer-thread.${extension}`, import.meta.url), { workerData });
    worker.on('message', (message: unknown) => logger.warn({ scorer: message }, 'the scorer met an error'));
    worker.on('error', (error) => logger.error({ err: error }, 'the scorer thread failed'));
    worker.on('exit', () => {
      if (!closing) restart = setTimeout(start, RESTART_MS);
    });
  };
  start();
  return {
    async close() {
      closing = true;
      clearTimeout(restart);
      const ended = new Promise<void>((resolve) => worker.once('exit', () => resolve()));
      worker.postMessage('stop');
      const late = setTimeout(() => void worker.terminate(), 5_000);
      await ended;
      clearTimeout(late);
    },
  };
}
