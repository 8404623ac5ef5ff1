/** Thread entry: opens the store and runs the scorer until told to stop. */
import { randomUUID } from 'node:crypto';
import { parentPort, workerData } from 'node:worker_threads';
import { ConsortError } from '../contract/errors.ts';
import { verifiers } from '../scoring/rewards/index.ts';
import { Scorer } from '../scoring/scorer.ts';
import { openStore } from '../store/index.ts';
import { clock } from './natives.ts';
import type { ScorerData } from './scorer.ts';

const { storeUrl, retentionMs, players, publishMs } = workerData as ScorerData;
const control = new AbortController();
parentPort?.once('message', () => control.abort());

const store = await openStore(storeUrl, { retentionMs });
const scorer = new Scorer({
  store,
  verifiers,
  clock,
  consumer: randomUUID(),
  playersOf: (system) => players[system],
  publishMs,
  onError: (error) => parentPort?.postMessage(ConsortError.from(error).toBody().error),
});
await scorer.run(control.signal);
await store.close();
parentPort?.close();
