/** Runs a scorer on a store until the signal: the body of the thread and of the command. */
import { randomUUID } from 'node:crypto';
import { verifiers } from '../scoring/rewards/index.ts';
import { Scorer, type ScorerEvents } from '../scoring/scorer.ts';
import { openStore } from '../store/index.ts';
import { clock } from './natives.ts';
import type { ScorerSettings } from './scorer.ts';

export async function runScorer(
  { storeUrl, retentionMs, players, publishMs }: ScorerSettings,
  signal: AbortSignal,
  events: ScorerEvents,
): Promise<void> {
  const store = await openStore(storeUrl, { retentionMs });
  const scorer = new Scorer({
    ...events,
    store,
    verifiers,
    clock,
    consumer: randomUUID(),
    playersOf: (system) => players[system],
    publishMs,
    retentionMs,
  });
  await scorer.run(signal);
  await store.close();
}
