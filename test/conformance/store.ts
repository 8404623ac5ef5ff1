/** What every store must do, whatever holds its data. */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Test } from 'tap';
import type { Release } from '../../src/contract/release.ts';
import type { FollowOptions, LedgerEntry, Store, TallyEvent, TallyKey } from '../../src/contract/store.ts';
import {
  chance,
  estimateOf,
  eventOf,
  outcomeEntry,
  outcomeOf,
  randomEvents,
  rewardEntry,
} from './store-fixtures.ts';
import { recompute } from './store-oracle.ts';

export interface StoreUnderTest {
  /** Another client of the same data. */
  open(): Promise<Store>;
  /** Ends whatever holds the data in memory, without warning, and starts it again. */
  restart(): Promise<void>;
}

/** A pool that no other test uses. */
const freshPool = () => `pool-${randomUUID().slice(0, 8)}`;

const following = (pool: string, changes: Partial<FollowOptions> = {}): FollowOptions => ({
  pool,
  group: 'score',
  consumer: 'one',
  count: 100,
  blockMs: 0,
  claimIdleMs: 60_000,
  ...changes,
});

const keyOf = (pool: string, changes: Partial<TallyKey> = {}): TallyKey => ({
  pool,
  poolRevision: 'r1',
  system: 'demo',
  protocolRevision: 'p1',
  task: 'gsm8k',
  source: 'verifier:exact-match@1',
  bucket: '2026-01-01',
  ...changes,
});

const outcomeIds = (deliveries: readonly { entry: LedgerEntry }[]) =>
  deliveries.map(({ entry }) => (entry.kind === 'outcome' ? entry.outcome.id : entry.reward.id));

/** Runs the suite against one kind of store. */
export function storeConformance(t: Test, name: string, start: (t: Test) => Promise<StoreUnderTest>): void {
  t.test(name, async (t) => {
    const subject = await start(t);
    const store = await subject.open();
    const second = await subject.open();
    t.teardown(() => Promise.all([store.close(), second.close()]));
    ledgerTests(t, store, second);
    groupTests(t, store, second);
    tallyTests(t, store, second);
    estimateTests(t, store, second);
    leaseTests(t, store, second);
    counterTests(t, store, second);
    placeTests(t, store, second);
    releaseTests(t, store, second);
    turnTests(t, store, second);
    lagTests(t, store, second);
    restartTest(t, subject);
  });
}

function ledgerTests(t: Test, store: Store, second: Store): void {
  t.test('keeps entries in order and reads them from any place', async (t) => {
    const pool = freshPool();
    const { plan } = outcomeOf(pool);
    const plans = [plan, { ...plan, resumes: null }, { ...plan, resumes: 'before' }, plan, plan];
    const entries = plans.map((one, i) => outcomeEntry(pool, { answer: `${i}`, plan: one }));
    await store.ledger.append(entries.slice(0, 2));
    await store.ledger.append(entries.slice(2));
    const all = await second.ledger.read(pool, '0-0', 10);
    t.same(
      all.map(({ entry }) => entry),
      entries,
    );
    t.same(outcomeIds(await store.ledger.read(pool, all[1]?.id ?? '', 2)), outcomeIds(all.slice(2, 4)));
    t.ok((await store.ledger.pools()).includes(pool));
    t.match(all[0]?.id, /^\d{13}-\d+$/);
  });

  t.test('keeps outcomes and rewards of several pools apart', async (t) => {
    const [first, other] = [freshPool(), freshPool()];
    const outcome = outcomeEntry(first);
    await store.ledger.append([outcome, outcomeEntry(other), rewardEntry(first, outcome.outcome.id, 0.5)]);
    t.same(
      (await store.ledger.read(first, '0-0', 10)).map(({ entry }) => entry.kind),
      ['outcome', 'reward'],
    );
    t.equal((await store.ledger.read(other, '0-0', 10)).length, 1);
  });

  t.test('keeps an outcome once, however often and from wherever it is appended', async (t) => {
    const pool = freshPool();
    const entry = outcomeEntry(pool);
    await store.ledger.append([entry, entry]);
    await store.ledger.append([entry]);
    await Promise.all(Array.from({ length: 20 }, (_, i) => (i % 2 ? store : second).ledger.append([entry])));
    t.equal((await store.ledger.read(pool, '0-0', 10)).length, 1);
  });

  t.test('finds the outcome of a reward that comes long after it', async (t) => {
    const pool = freshPool();
    const entry = outcomeEntry(pool);
    await store.ledger.append([entry]);
    for (let i = 0; i < 3; i++)
      await store.ledger.append(Array.from({ length: 100 }, () => outcomeEntry(pool)));
    const found = await second.ledger.outcome(entry.outcome.id);
    t.same(found, entry.outcome);
    await second.ledger.append([rewardEntry(pool, entry.outcome.id, 1)]);
    await second.ledger.append([rewardEntry(pool, entry.outcome.id, 1)]);
    const all = await store.ledger.read(pool, '0-0', 1_000);
    t.same(
      all.map(({ entry: { kind } }) => kind).slice(-2),
      ['reward', 'reward'],
      'a repeated reward is kept',
    );
    t.equal(await store.ledger.outcome(randomUUID()), undefined);
  });

  t.test('carries a megabyte and every script', async (t) => {
    const pool = freshPool();
    const text = 'Ωµ漢字🧵\u0000"\\\u2028\ud83e\uddf5'.repeat(50_000);
    const entry = outcomeEntry(pool, { answer: text, taskLabel: 'münchen:{x}%' });
    await store.ledger.append([entry]);
    t.ok(Buffer.byteLength(text) > 1_000_000);
    const found = await second.ledger.outcome(entry.outcome.id);
    t.ok(found?.answer === text);
    t.equal(found?.taskLabel, 'münchen:{x}%');
  });

  t.test('takes concurrent writers without losing or repeating', async (t) => {
    const pool = freshPool();
    const batches = Array.from({ length: 40 }, () => Array.from({ length: 10 }, () => outcomeEntry(pool)));
    await Promise.all(batches.map((batch, i) => (i % 2 ? store : second).ledger.append(batch)));
    const all = await store.ledger.read(pool, '0-0', 1_000);
    t.equal(new Set(outcomeIds(all)).size, 400);
    t.equal(all.length, 400);
    t.equal(new Set(all.map(({ id }) => id)).size, 400);
  });
}

function groupTests(t: Test, store: Store, second: Store): void {
  t.test('lets what nobody can judge pass a group by, and keeps it', async (t) => {
    const pool = freshPool();
    const judged = outcomeEntry(pool);
    const { gold: _gold, ...unjudged } = outcomeOf(pool);
    const entries = [{ kind: 'outcome', pool, outcome: unjudged } as const, judged];
    await store.ledger.append(entries);
    const taken = await second.ledger.follow(following(pool));
    t.same(
      taken.map(({ entry }) => entry),
      [judged],
    );
    t.equal((await store.ledger.read(pool, '0-0', 10)).length, 2);
    t.same(await store.ledger.outcome(unjudged.id), unjudged);
    t.equal((await store.ledger.lag(pool, 'score')).oldestUnreadAt, null);
  });

  t.test('gives each entry to one consumer of a group, and to every group', async (t) => {
    const pool = freshPool();
    await store.ledger.append(Array.from({ length: 10 }, () => outcomeEntry(pool)));
    const [one, two] = [
      await store.ledger.follow(following(pool, { count: 4 })),
      await second.ledger.follow(following(pool, { consumer: 'two' })),
    ];
    t.same([one.length, two.length], [4, 6]);
    t.equal(new Set([...one, ...two].map(({ id }) => id)).size, 10);
    t.ok([...one, ...two].every(({ deliveries }) => deliveries === 1));
    t.equal((await store.ledger.follow(following(pool, { group: 'learn' }))).length, 10);
    t.same(await store.ledger.follow(following(pool)), []);
  });

  t.test('gives again what a dead consumer has left, but not what was acknowledged', async (t) => {
    const pool = freshPool();
    await store.ledger.append(Array.from({ length: 3 }, () => outcomeEntry(pool)));
    const taken = await store.ledger.follow(following(pool));
    await store.ledger.acknowledge(pool, 'score', [taken[1]?.id ?? '']);
    await sleep(30);
    t.same(await second.ledger.follow(following(pool, { consumer: 'two' })), [], 'not before the time');
    const again = await second.ledger.follow(following(pool, { consumer: 'two', claimIdleMs: 20 }));
    t.same(
      again.map(({ id, deliveries }) => [id, deliveries]),
      [
        [taken[0]?.id, 2],
        [taken[2]?.id, 2],
      ],
    );
    t.same(again[0]?.entry, taken[0]?.entry);
    await sleep(30);
    const third = await store.ledger.follow(following(pool, { claimIdleMs: 20, count: 1 }));
    t.same(
      third.map(({ id, deliveries }) => [id, deliveries]),
      [[taken[0]?.id, 3]],
    );
    const ids = taken.map(({ id }) => id);
    await store.ledger.acknowledge(pool, 'score', ids);
    await sleep(30);
    t.same(await store.ledger.follow(following(pool, { claimIdleMs: 20 })), []);
  });

  t.test('wakes a waiting consumer when another client appends', async (t) => {
    const pool = freshPool();
    const began = performance.now();
    const waiting = store.ledger.follow(following(pool, { blockMs: 5_000 }));
    await sleep(50);
    const other = second.ledger.follow(following(freshPool(), { blockMs: 100 }));
    const entry = outcomeEntry(pool);
    await second.ledger.append([entry]);
    t.same(outcomeIds(await waiting), [entry.outcome.id]);
    t.ok(performance.now() - began < 1_000, 'within the polling time');
    t.same(await other, [], 'and the one without an entry waits in vain');
    t.ok(performance.now() - began >= 100);
  });

  t.test('trims what every group has acknowledged and nothing else', async (t) => {
    const pool = freshPool();
    const future = Date.now() + 60_000;
    await store.ledger.append(Array.from({ length: 4 }, () => outcomeEntry(pool)));
    const taken = await store.ledger.follow(following(pool, { count: 3 }));
    await store.ledger.acknowledge(pool, 'score', [taken[0]?.id ?? '', taken[2]?.id ?? '']);
    await store.ledger.trim(Date.now() - 60_000);
    t.equal((await store.ledger.read(pool, '0-0', 10)).length, 4, 'all are young');
    await store.ledger.trim(future);
    const left = (await store.ledger.read(pool, '0-0', 10)).map(({ id }) => id);
    t.notOk(left.includes(taken[0]?.id ?? ''), 'acknowledged and old');
    t.ok(left.includes(taken[1]?.id ?? ''), 'delivered, not acknowledged');
    await store.ledger.acknowledge(pool, 'score', [taken[1]?.id ?? '']);
    await store.ledger.trim(future);
    const last = await store.ledger.read(pool, '0-0', 10);
    t.equal(last.length, 1, 'not delivered yet');
    const next = await store.ledger.follow(following(pool));
    t.same(outcomeIds(next), outcomeIds(last));
    await store.ledger.acknowledge(pool, 'score', [next[0]?.id ?? '']);
    t.ok((await store.ledger.trim(future)) >= 1);
    await store.ledger.append([outcomeEntry(pool)]);
    const [fresh] = await store.ledger.follow(following(pool));
    t.ok((fresh?.id ?? '') > (next[0]?.id ?? ''), 'ids go on after everything was dropped');
  });
}

function tallyTests(t: Test, store: Store, second: Store): void {
  for (const [n, prompts] of [
    [1, 20],
    [2, 60],
    [3, 120],
    [4, 60],
    [5, 40],
    [8, 14],
  ] as const) {
    t.test(`sums of random events in a pool of ${n} are those of a recomputation`, async (t) => {
      const pool = freshPool();
      const events = randomEvents(keyOf(pool), n, prompts, chance(n));
      for (let i = 0; i < events.length; i += 200) {
        // Each prompt through one client, so that its first event is known: it sets the bucket.
        const clientOf = (event: TallyEvent) => (event.promptInstance.endsWith('1') ? second : store);
        await Promise.all(events.slice(i, i + 200).map((event) => clientOf(event).tallies.apply(event)));
      }
      const expected = recompute(events);
      for (const [bucket, sums] of expected) {
        const found = await second.tallies.read(keyOf(pool, { bucket }));
        t.same(Object.fromEntries(found), Object.fromEntries(sums), bucket);
      }
      t.equal(expected.size, 2);
      const fields = [...expected.values()].flatMap((sums) => [...sums.keys()]);
      const kinds =
        n === 1 ? [/^1:q$/, /^F:u0:g$/] : [/:dq$/, /^\d+:x$/, /^D:0:1$/, /^S:0:\d:q$/, /^F:c1:q$/];
      for (const kind of kinds) t.ok(fields.some((field) => kind.test(field)));
      t.comment(`${events.length} events`);
    });
  }

  t.test('says what an event was, and counts it once for two clients', async (t) => {
    const pool = freshPool();
    const event = eventOf(keyOf(pool));
    const first = { ...event, entryId: '1700000000000-5', reward: 2_500 };
    const both = await Promise.all([store.tallies.apply(first), second.tallies.apply(first)]);
    t.same(both.toSorted(), ['duplicate', 'new']);
    t.equal(await store.tallies.apply({ ...first, entryId: '1700000000000-10', reward: 5_000 }), 'revised');
    t.equal(await store.tallies.apply({ ...first, entryId: '1700000000000-9', reward: 0 }), 'duplicate');
    t.equal(await store.tallies.apply({ ...first, entryId: '1700000000001-0', reward: null }), 'revised');
    t.same([...(await store.tallies.read(first.key))], [['1:x', 1n]]);
    t.same(await store.tallies.read(keyOf(freshPool())), new Map());
  });

  t.test('acknowledges the entry it counts, and the repeated too', async (t) => {
    const pool = freshPool();
    const base = eventOf(keyOf(pool));
    await store.ledger.append(Array.from({ length: 2 }, () => outcomeEntry(pool)));
    const taken = await store.ledger.follow(following(pool));
    const ids = taken.map(({ id }) => id);
    const [older = '', newer = ''] = ids;
    t.equal(await store.tallies.apply({ ...base, group: 'score', entryId: newer }), 'new');
    t.equal(await store.tallies.apply({ ...base, group: 'score', entryId: older }), 'duplicate');
    await sleep(5);
    t.same(await store.ledger.follow(following(pool, { claimIdleMs: 1 })), []);
  });

  t.test('leaves an entry to its consumer when no group is named', async (t) => {
    const pool = freshPool();
    const base = { ...eventOf(keyOf(pool)), group: null };
    await store.ledger.append([outcomeEntry(pool)]);
    const [taken] = await store.ledger.follow(following(pool));
    const entryId = taken?.id ?? '';
    t.equal(await store.tallies.apply({ ...base, entryId }), 'new');
    t.equal(await store.tallies.apply({ ...base, entryId }), 'duplicate');
    t.equal((await second.ledger.lag(pool, 'score')).pending, 1);
    await store.ledger.acknowledge(pool, 'score', [entryId]);
    t.equal((await second.ledger.lag(pool, 'score')).pending, 0);
  });

  t.test('lists its keys, whatever characters they hold', async (t) => {
    const pool = freshPool();
    const odd = { system: `s:{${pool}}%3A`, task: 'täsk:1', source: 'feedback:user' };
    const keys = [keyOf(pool), keyOf(pool, { bucket: '2026-01-02' }), keyOf(pool, odd)];
    const base = eventOf(keyOf(pool));
    for (const [i, key] of keys.entries()) {
      await store.tallies.apply({ ...base, key, promptInstance: `prompt ${i}` });
    }
    const byText = (list: readonly TallyKey[]) => list.map((key) => JSON.stringify(key)).toSorted();
    t.same(byText(await second.tallies.keys({ pool })), byText(keys));
    t.same(await second.tallies.keys({ system: odd.system }), [keyOf(pool, odd)]);
    t.same(await second.tallies.keys({ pool, system: 'nobody' }), []);
  });

  t.test('sums beyond what a double holds', async (t) => {
    const pool = freshPool();
    const event = { ...eventOf(keyOf(pool)), reward: 10_000, n: 1, design: 'f' } as const;
    const ids = Array.from({ length: 901 }, (_, i) => i);
    await Promise.all(
      ids.map((i) => store.tallies.apply({ ...event, entryId: `1-${i + 1}`, promptInstance: `${i}` })),
    );
    const sums = await store.tallies.read(keyOf(pool));
    t.equal(sums.get('F:g:q'), 901n * 10n ** 10n);
    t.equal(typeof sums.get('F:g:q'), 'bigint');
  });
}

function estimateTests(t: Test, store: Store, second: Store): void {
  t.test('replaces the estimates of a system, task and source together', async (t) => {
    const system = freshPool();
    const other = freshPool();
    await store.estimates.publish(
      system,
      'a',
      's',
      [estimateOf(system, 'a', 's', 1), estimateOf(system, 'a', 's', 2)],
      1,
    );
    await store.estimates.publish(system, 'b', 's', [estimateOf(system, 'b', 's', 3)], 1);
    await store.estimates.publish(system, 'b', 't', [estimateOf(system, 'b', 't', 4)], 1);
    await store.estimates.publish(other, 'a', 's', [estimateOf(other, 'a', 's', 5)], 1);
    const values = async (filter: Parameters<Store['estimates']['query']>[0]) =>
      (await second.estimates.query(filter)).map(({ value }) => value).toSorted((a, b) => a - b);
    t.same(await values({ system }), [1, 2, 3, 4]);
    t.same(await values({ system, task: 'b' }), [3, 4]);
    t.ok((await values({})).includes(5) && (await values({ task: 'a' })).includes(5));
    await store.estimates.publish(system, 'a', 's', [estimateOf(system, 'a', 's', 6)], 1);
    await store.estimates.publish(system, 'b', 's', [], 1);
    t.same(await values({ system }), [4, 6]);
    t.same((await second.estimates.query({ system, task: 'a' }))[0], estimateOf(system, 'a', 's', 6));
  });

  t.test('publishes nothing from a holder whose lease another has taken over', async (t) => {
    const system = freshPool();
    const [old, late] = [estimateOf(system, 'a', 's', 1), estimateOf(system, 'a', 's', 2)];
    t.ok(await store.estimates.publish(system, 'a', 's', [old], 4));
    t.ok(await second.estimates.publish(system, 'a', 's', [late], 5));
    t.notOk(await store.estimates.publish(system, 'a', 's', [old], 4));
    t.notOk(await store.estimates.publish(system, 'a', 's', [], 4), 'withdrawing is publishing too');
    t.same(await store.estimates.query({ system }), [late]);
    t.ok(await second.estimates.publish(system, 'a', 's', [old], 5));
  });
}

function leaseTests(t: Test, store: Store, second: Store): void {
  t.test('lets one holder have a lease, and gives its successor a higher token', async (t) => {
    const name = freshPool();
    const first = await store.leases.acquire(name, 'a', 60_000);
    t.equal(typeof first, 'number');
    t.equal(await second.leases.acquire(name, 'b', 60_000), undefined);
    t.equal(await second.leases.acquire(name, 'a', 60_000), first, 'renewing keeps the token');
    await second.leases.release(name, 'b');
    t.equal(await second.leases.acquire(name, 'b', 60_000), undefined, 'only the holder can give it back');
    await store.leases.release(name, 'a');
    const next = await second.leases.acquire(name, 'b', 20);
    t.ok((next ?? 0) > (first ?? 0));
    await sleep(40);
    t.ok(
      ((await store.leases.acquire(name, 'a', 60_000)) ?? 0) > (next ?? 0),
      'an expired lease can be taken',
    );
  });

  t.test('gives a lease to one of many that ask at once', async (t) => {
    const name = freshPool();
    const asks = Array.from({ length: 10 }, (_, i) =>
      (i % 2 ? store : second).leases.acquire(name, `${i}`, 60_000),
    );
    t.equal((await Promise.all(asks)).filter((token) => token !== undefined).length, 1);
  });
}

function counterTests(t: Test, store: Store, second: Store): void {
  t.test('never lets a counter go over its limit, however many ask at once', async (t) => {
    const name = freshPool();
    const asks = Array.from({ length: 50 }, (_, i) =>
      (i % 2 ? store : second).counters.reserve(name, 10, 95, 60_000),
    );
    t.equal((await Promise.all(asks)).filter(Boolean).length, 9);
    t.equal(await store.counters.total(name), 90);
    await store.counters.settle(name, -7);
    t.equal(await second.counters.total(name), 83);
    t.ok(await second.counters.reserve(name, 12, 95, 60_000));
    t.notOk(await store.counters.reserve(name, 1, 95, 60_000));
    t.notOk(
      await store.counters.reserve(freshPool(), 2, 1, 60_000),
      'the first reservation obeys the limit too',
    );
  });

  t.test('forgets a counter after its time', async (t) => {
    const name = freshPool();
    t.ok(await store.counters.reserve(name, 1, 1, 30));
    t.notOk(await store.counters.reserve(name, 1, 1, 30));
    await sleep(60);
    t.equal(await second.counters.total(name), 0);
    await store.counters.settle(name, 5);
    t.equal(await second.counters.total(name), 0, 'what is forgotten cannot be settled');
    t.ok(await second.counters.reserve(name, 1, 1, 60_000));
  });
}

function placeTests(t: Test, store: Store, second: Store): void {
  t.test('lets only so many have a place at once, however many ask', async (t) => {
    const name = freshPool();
    const take = (i: number) => (i % 2 ? store : second).places.take(name, `${i}`, 5, 60_000);
    const taken = await Promise.all(Array.from({ length: 20 }, (_, i) => take(i)));
    t.equal(taken.filter(Boolean).length, 5);
    const holder = taken.indexOf(true);
    t.ok(await take(holder), 'who has one keeps it');
    const outsider = taken.indexOf(false);
    await store.places.leave(name, `${outsider}`);
    t.notOk(await take(outsider), 'who has none gives none back');
    await second.places.leave(name, `${holder}`);
    t.ok(await take(outsider));
    t.ok(await store.places.take(freshPool(), 'a', 1, 60_000), 'of each name its own');
  });

  t.test('frees a place that nobody gave back', async (t) => {
    const name = freshPool();
    t.ok(await store.places.take(name, 'killed', 1, 30));
    t.notOk(await second.places.take(name, 'next', 1, 60_000));
    await sleep(60);
    t.ok(await second.places.take(name, 'next', 1, 60_000));
    t.notOk(await store.places.take(name, 'killed', 1, 60_000));
  });
}

function turnTests(t: Test, store: Store, second: Store): void {
  t.test('keeps a text under a name, for all who ask', async (t) => {
    const name = freshPool();
    t.equal(await store.turns.find(name), undefined);
    await store.turns.keep(name, 'ünö "1"', 60_000, 100);
    t.equal(await second.turns.find(name), 'ünö "1"');
    await second.turns.keep(name, 'two', 60_000, 100);
    t.equal(await store.turns.find(name), 'two', 'the later one');
  });

  t.test('forgets a text after its time', async (t) => {
    const [brief, long] = [freshPool(), freshPool()];
    await store.turns.keep(brief, 'one', 30, 100);
    await store.turns.keep(long, 'two', 60_000, 100);
    await sleep(60);
    t.equal(await second.turns.find(brief), undefined);
    await store.turns.keep(brief, 'three', 60_000, 100);
    t.equal(await second.turns.find(brief), 'three', 'and its name is free again');
    t.equal(await second.turns.find(long), 'two');
  });

  t.test('keeps no more texts than it may: those that end first go', async (t) => {
    const names = Array.from({ length: 6 }, freshPool);
    for (const [index, name] of names.entries()) await store.turns.keep(name, name, 90_000 + index * 1000, 3);
    const found = await Promise.all(names.map((name) => second.turns.find(name)));
    t.strictSame(found, [undefined, undefined, undefined, ...names.slice(3)]);
    await store.turns.keep(freshPool(), 'short', 1000, 3);
    t.equal(await second.turns.find(names[3] ?? ''), names[3], 'even the newest');
  });
}

function releaseOf(policy: string, version: number, ...stages: readonly Release['stage'][]): Release {
  const history = stages.map((to, at) => ({ from: stages[at - 1] ?? null, to, at, reason: `änd ${to}` }));
  return {
    v: 1,
    policy,
    version,
    servedAs: `${policy}-v${version}`,
    base: 'Qwen/Qwen3-27B',
    artifact: { uri: `file:/loras/${policy}`, sha256: 'ab'.repeat(32) },
    trainedOn: { run: 'run', step: version },
    stage: stages.at(-1) ?? 'exported',
    history,
  };
}

function releaseTests(t: Test, store: Store, second: Store): void {
  t.test('keeps a release, and lists those of a policy from the newest', async (t) => {
    const [policy, other] = [freshPool(), freshPool()];
    for (const version of [2, 10, 1]) {
      const next = releaseOf(policy, version, 'exported');
      t.ok(await store.releases.compareAndSet([{ expected: 0, next }]));
    }
    const foreign = releaseOf(other, 2, 'exported');
    await store.releases.compareAndSet([{ expected: 0, next: foreign }]);
    t.same(await second.releases.get(policy, 10), releaseOf(policy, 10, 'exported'));
    t.equal(await second.releases.get(policy, 3), undefined);
    t.same(
      (await second.releases.list(policy)).map(({ version }) => version),
      [10, 2, 1],
    );
    t.ok((await second.releases.list()).some((release) => release.policy === other));
    const policies = await second.releases.policies();
    t.ok(policies.includes(policy) && policies.includes(other));
    t.same(policies, policies.toSorted());
    t.same(await second.releases.list(freshPool()), []);
  });

  t.test('changes a release only from the state that was read, and for one of many that try', async (t) => {
    const policy = freshPool();
    const exported = releaseOf(policy, 1, 'exported');
    const open = Array.from({ length: 10 }, (_, i) =>
      (i % 2 ? store : second).releases.compareAndSet([{ expected: 0, next: exported }]),
    );
    t.equal((await Promise.all(open)).filter(Boolean).length, 1);
    const moves = Array.from({ length: 20 }, (_, i) => {
      const next = releaseOf(policy, 1, 'exported', i % 3 ? 'verified' : 'rejected');
      return (i % 2 ? store : second).releases.compareAndSet([{ expected: 1, next }]);
    });
    const won = await Promise.all(moves);
    t.equal(won.filter(Boolean).length, 1);
    const stage = won.indexOf(true) % 3 ? 'verified' : 'rejected';
    t.equal((await store.releases.get(policy, 1))?.stage, stage, 'what is kept is the winner’s');
    t.notOk(await store.releases.compareAndSet([{ expected: 5, next: exported }]));
    t.notOk(await store.releases.compareAndSet([{ expected: 1, next: releaseOf(policy, 2, 'exported') }]));
  });

  t.test('hands the alias from one version to the next in one step, and never to two', async (t) => {
    const policy = freshPool();
    t.equal(await store.releases.live(policy), undefined);
    const first = releaseOf(policy, 1, 'probed', 'live');
    t.ok(await store.releases.compareAndSet([{ expected: 0, next: first }]));
    t.same(await second.releases.live(policy), first);
    const next = { expected: 0, next: releaseOf(policy, 2, 'live') };
    t.notOk(await second.releases.compareAndSet([next]), 'the first is still live');
    t.equal(await second.releases.get(policy, 2), undefined);
    const retired = { expected: 2, next: releaseOf(policy, 1, 'probed', 'live', 'retired') };
    t.notOk(await store.releases.compareAndSet([retired, { ...next, expected: 1 }]), 'all or none');
    t.equal((await store.releases.get(policy, 1))?.stage, 'live');
    t.ok(await second.releases.compareAndSet([next, retired]), 'in any order');
    t.equal((await store.releases.live(policy))?.version, 2);
    t.equal((await store.releases.get(policy, 1))?.stage, 'retired');
    const gone = releaseOf(policy, 2, 'live', 'rolled-back');
    t.ok(await store.releases.compareAndSet([{ expected: 1, next: gone }]));
    t.equal(await second.releases.live(policy), undefined);
  });

  t.test('lets one of several controllers take over the alias', async (t) => {
    const policy = freshPool();
    const live = releaseOf(policy, 0, 'probed', 'live');
    const waiting = Array.from({ length: 8 }, (_, i) => releaseOf(policy, i + 1, 'probed'));
    for (const next of [live, ...waiting]) await store.releases.compareAndSet([{ expected: 0, next }]);
    const retired = { expected: 2, next: releaseOf(policy, 0, 'probed', 'live', 'retired') };
    const won = await Promise.all(
      waiting.map(({ version }) => {
        const next = releaseOf(policy, version, 'probed', 'live');
        return (version % 2 ? store : second).releases.compareAndSet([retired, { expected: 1, next }]);
      }),
    );
    t.equal(won.filter(Boolean).length, 1);
    t.equal((await second.releases.live(policy))?.version, won.indexOf(true) + 1);
    const all = await store.releases.list(policy);
    t.equal(all.filter(({ stage }) => stage === 'live').length, 1);
  });
}

function lagTests(t: Test, store: Store, second: Store): void {
  t.test('says how far a group is behind', async (t) => {
    const pool = freshPool();
    const none = { oldestUnreadAt: null, pending: 0, oldestPendingAt: null };
    t.same(await store.ledger.lag(pool, 'score'), none);
    await store.ledger.append([outcomeEntry(pool), outcomeEntry(pool)]);
    const [first] = await store.ledger.read(pool, '0-0', 1);
    const at = Number(first?.id.split('-')[0]);
    t.same(await second.ledger.lag(pool, 'score'), { ...none, oldestUnreadAt: at });
    const [taken] = await store.ledger.follow(following(pool, { count: 1 }));
    const lag = await second.ledger.lag(pool, 'score');
    t.equal(lag.pending, 1);
    t.equal(lag.oldestPendingAt, at);
    t.ok(lag.oldestUnreadAt !== null);
    await store.ledger.follow(following(pool));
    await store.ledger.acknowledge(pool, 'score', [taken?.id ?? '']);
    t.equal((await second.ledger.lag(pool, 'score')).oldestUnreadAt, null);
  });

  t.test('sets aside what cannot be handled, with the reason', async (t) => {
    const pool = freshPool();
    await store.ledger.append([outcomeEntry(pool)]);
    const [taken] = await store.ledger.follow(following(pool));
    const id = taken?.id ?? '';
    await store.ledger.bury(pool, 'score', id, 'no outcome for it');
    t.same(await second.ledger.buried(pool), [{ id, reason: 'no outcome for it' }]);
    t.equal((await second.ledger.lag(pool, 'score')).pending, 0);
    t.same(await second.ledger.buried(freshPool()), []);
  });
}

function restartTest(t: Test, subject: StoreUnderTest): void {
  t.test('remembers everything when it is opened again after a crash', async (t) => {
    const pool = freshPool();
    const before = await subject.open();
    const entry = outcomeEntry(pool);
    const event = eventOf(keyOf(pool));
    await before.ledger.append([entry, outcomeEntry(pool)]);
    const [first] = await before.ledger.follow(following(pool, { count: 1 }));
    await before.tallies.apply(event);
    const sums = await before.tallies.read(event.key);
    await before.estimates.publish(pool, 'a', 's', [estimateOf(pool, 'a', 's', 1)], 1);
    const live = releaseOf(pool, 1, 'live');
    await before.releases.compareAndSet([{ expected: 0, next: live }]);
    await before.close();
    await t.rejects(before.ping(), { code: 'store_unavailable' });
    await subject.restart();
    const after = await subject.open();
    t.teardown(() => after.close());
    await after.ping();
    await after.ledger.append([entry]);
    t.equal((await after.ledger.read(pool, '0-0', 10)).length, 2);
    t.same(await after.ledger.outcome(entry.outcome.id), entry.outcome);
    t.same(await after.tallies.read(event.key), sums);
    t.equal(await after.tallies.apply(event), 'duplicate');
    t.equal((await after.estimates.query({ system: pool })).length, 1);
    t.same(await after.releases.live(pool), live);
    const next = await after.ledger.follow(following(pool));
    t.equal(next.length, 1, 'the group goes on where it was');
    const again = await after.ledger.follow(following(pool, { claimIdleMs: 0, consumer: 'two', count: 1 }));
    t.same(
      again.map(({ id, deliveries }) => [id, deliveries]),
      [[first?.id, 2]],
    );
  });
}
