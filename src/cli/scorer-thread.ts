/** Thread entry: opens the store and runs the scorer until told to stop. */
import { parentPort, workerData } from 'node:worker_threads';
import { ConsortError } from '../contract/errors.ts';
import type { Handled } from '../scoring/scorer.ts';
import { runScorer } from './run-scorer.ts';
import type { ScorerMessage, ScorerSettings } from './scorer.ts';

const control = new AbortController();
parentPort?.once('message', () => control.abort());

const tell = (message: ScorerMessage) => parentPort?.postMessage(message);
/** Counts travel together, not one by one. */
let counts: Partial<Record<Handled, number>> = {};
const timer = setInterval(() => {
  if (Object.keys(counts).length === 0) return;
  tell({ handled: counts });
  counts = {};
}, 250);

await runScorer(workerData as ScorerSettings, control.signal, {
  onHandled: (result) => (counts[result] = (counts[result] ?? 0) + 1),
  onPublished: (published) => tell({ published }),
  onLag: (pool, lag) => tell({ pool, lag }),
  onError: (error) => tell({ error: ConsortError.from(error).toBody().error }),
});
clearInterval(timer);
parentPort?.close();
