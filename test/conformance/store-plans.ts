/** What plans share is kept once, and as long as an entry needs it. */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Test } from 'tap';
import type { Store } from '../../src/contract/store.ts';
import { outcomeEntry, outcomeOf } from './store-fixtures.ts';

/** An outcome of a plan that shares all but its own fields with those of equal options. */
function outcomeWith(pool: string, options: Record<string, unknown>) {
  const { plan } = outcomeOf(pool);
  return outcomeEntry(pool, { plan: { ...plan, id: randomUUID(), seed: randomUUID(), options } });
}

/** @param count how many plans the store keeps for a pool: a look past its interface */
export async function keepsPlansOnce(
  t: Test,
  { ledger }: Store,
  count: (pool: string) => number | Promise<number>,
): Promise<void> {
  const pool = 'plans';
  const first = [outcomeWith(pool, { rounds: 1 }), outcomeWith(pool, { rounds: 1 })];
  const second = [outcomeWith(pool, { rounds: 2 }), outcomeWith(pool, { rounds: 2 })];
  await ledger.append(first);
  // Plans are told apart by the millisecond of their last use.
  await sleep(5);
  await ledger.append([...second, ...first]);
  t.equal(await count(pool), 2);
  const kept = await ledger.read(pool, '0-0', 10);
  t.same(
    kept.map(({ entry }) => entry),
    [...first, ...second],
  );

  const taken = await ledger.follow({
    pool,
    group: 'g',
    consumer: 'c',
    count: 10,
    blockMs: 0,
    claimIdleMs: 60_000,
  });
  const ids = taken.map(({ id }) => id);
  await ledger.acknowledge(pool, 'g', ids.slice(0, 2));
  const future = Date.now() + 60_000;
  await ledger.trim(future);
  t.equal(await count(pool), 1, 'nothing uses the first any more');
  t.same(
    (await ledger.read(pool, '0-0', 10)).map(({ entry }) => entry),
    second,
    'what still uses the other is whole',
  );
  const again = outcomeWith(pool, { rounds: 1 });
  await ledger.append([again]);
  t.equal(await count(pool), 2);
  t.same(await ledger.outcome(again.outcome.id), again.outcome);
}
