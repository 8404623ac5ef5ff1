import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { clock } from '../../src/cli/natives.ts';
import type { Store } from '../../src/contract/store.ts';
import { SCORER_GROUP, Scorer } from '../../src/scoring/scorer.ts';
import { openStore } from '../../src/store/index.ts';
import { outcomeEntry, rewardEntry } from '../conformance/store-fixtures.ts';

const POOL = 'pool';

/** A scorer that takes over at once what another has left. */
function scorerOn(store: Store): Scorer {
  const follow: Store['ledger']['follow'] = (options) => store.ledger.follow({ ...options, claimIdleMs: 1 });
  return new Scorer({
    store: { ...store, ledger: { ...store.ledger, follow } },
    verifiers: [],
    clock,
    consumer: randomUUID(),
    playersOf: () => ['a', 'b'],
    publishMs: 0,
    retentionMs: 1e9,
    onHandled: () => undefined,
    onPublished: () => undefined,
    onLag: () => undefined,
    onError: (error) => t.error(error),
  });
}

async function reward(store: Store, value: number): Promise<void> {
  const outcome = outcomeEntry(POOL);
  const { plan } = outcome.outcome;
  const own = { ...outcome.outcome, plan: { ...plan, promptInstance: outcome.outcome.id } };
  await store.ledger.append([{ ...outcome, outcome: own }, rewardEntry(POOL, own.id, value)]);
}

t.test('a scorer that dies after it counted and before it published leaves that to the next', async (t) => {
  const store = await openStore('sqlite::memory:');
  t.teardown(() => store.close());
  const teamValue = async () => (await store.estimates.query({})).find(({ metric }) => metric === 'value');

  const first = scorerOn(store);
  await reward(store, 1);
  await first.step(0);
  await first.publish();
  t.equal((await teamValue())?.clusters, 1);
  t.equal((await store.ledger.lag(POOL, SCORER_GROUP)).pending, 0, 'what is published is acknowledged');

  await reward(store, 0);
  await reward(store, 0);
  await first.step(0);
  t.ok((await store.ledger.lag(POOL, SCORER_GROUP)).pending > 0, 'what is not published is not');

  await sleep(2);
  const second = scorerOn(store);
  await second.step(0);
  await second.publish();
  const { clusters, value } = (await teamValue())!;
  t.equal(clusters, 3);
  t.ok(Math.abs(value - 1 / 3) < 1e-9);
  t.equal((await store.ledger.lag(POOL, SCORER_GROUP)).pending, 0);
});

t.test('a scorer that cannot publish for long keeps what it holds, and so does its death', async (t) => {
  const store = await openStore('sqlite::memory:');
  t.teardown(() => store.close());
  const clusters = async () =>
    (await store.estimates.query({})).find(({ metric }) => metric === 'value')?.clusters;

  const first = scorerOn(store);
  await reward(store, 1);
  await reward(store, 0);
  await first.step(0);
  const held = (await store.ledger.lag(POOL, SCORER_GROUP)).pending;
  t.ok(held > 0);
  // What it holds comes to it again and again, as to a scorer that waits for the lease of a dead one.
  for (let again = 0; again < 3; again++) {
    await sleep(2);
    await first.step(0);
    t.equal((await store.ledger.lag(POOL, SCORER_GROUP)).pending, held, 'it is not acknowledged as known');
  }
  t.equal(await clusters(), undefined);

  await sleep(2);
  const second = scorerOn(store);
  await second.step(0);
  await second.publish();
  t.equal(await clusters(), 2);
  t.equal((await store.ledger.lag(POOL, SCORER_GROUP)).pending, 0);
});
