import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { Worker } from 'node:worker_threads';
import t, { type Test } from 'tap';
import { openStore, type StoreOptions } from '../../src/store/index.ts';
import { storeSettings } from '../../src/store/options.ts';
import { openSqlite } from '../../src/store/sqlite/client.ts';
import { spawnThread } from '../../src/store/sqlite/link.ts';
import { eventOf, outcomeEntry } from '../conformance/store-fixtures.ts';
import { keepsPlansOnce } from '../conformance/store-plans.ts';
import { storeConformance } from '../conformance/store.ts';

async function onDisk(t: Test) {
  const url = `sqlite:${t.testdir()}/deep/consort.db`;
  return { open: () => openStore(url), restart: async () => {} };
}

storeConformance(t, 'a SQLite file', onDisk);

const settingsOf = (options: StoreOptions = {}) => storeSettings(options);

t.test('a thread that dies fails its calls, and the next ones find a new thread', async (t) => {
  const workers: Worker[] = [];
  const heard: string[] = [];
  const options = { onDown: () => heard.push('down'), onUp: () => heard.push('up') };
  const store = await openSqlite(join(t.testdir(), 'consort.db'), settingsOf(options), (file) => {
    const worker = spawnThread(file);
    workers.push(worker);
    return worker;
  });
  const entry = outcomeEntry('p');
  await store.ledger.append([entry]);
  const waiting = store.ledger.follow({
    pool: 'empty',
    group: 'g',
    consumer: 'c',
    count: 1,
    blockMs: 60_000,
    claimIdleMs: 60_000,
  });
  const asked = Promise.allSettled([waiting, store.ledger.pools()]);
  await workers[0]?.terminate();
  for (const result of await asked) {
    if (result.status === 'rejected') t.match(result.reason, { code: 'store_unavailable', retryable: true });
  }
  t.equal((await asked)[0].status, 'rejected');
  await t.rejects(store.ping(), { code: 'store_unavailable' }, 'until it is back');
  await until(() => heard.includes('up'));
  t.same(await store.ledger.outcome(entry.outcome.id), entry.outcome);
  t.same(heard, ['down', 'up']);
  t.equal(workers.length, 2);
  await store.close();
  t.equal(workers.length, 2, 'closing is no death');
});

t.test('a consumer that waits is turned away when the store closes', async (t) => {
  const store = await openStore(`sqlite:${t.testdir()}/consort.db`);
  const place = { pool: 'p', group: 'g', consumer: 'c', count: 1 };
  const waiting = t.rejects(store.ledger.follow({ ...place, blockMs: 60_000, claimIdleMs: 1 }), {
    code: 'store_unavailable',
  });
  await store.ping();
  await store.close();
  await waiting;
});

t.test('more calls than may wait are refused, not queued', async (t) => {
  const store = await openStore(`sqlite:${t.testdir()}/consort.db`);
  const results = await Promise.allSettled(Array.from({ length: 5_000 }, () => store.ledger.pools()));
  const refused = results.filter(({ status }) => status === 'rejected');
  t.equal(refused.length, 5_000 - 4_096);
  t.match(refused[0], { reason: { code: 'store_unavailable' } });
  await store.close();
});

t.test('one bad call in a batch does not spoil the others', async (t) => {
  const store = await openStore(`sqlite:${t.testdir()}/consort.db`);
  const key = { ...eventOf(keyParts).key, pool: 'p' };
  const results = await Promise.allSettled([
    store.ledger.append([outcomeEntry('p')]),
    store.tallies.apply({ ...eventOf(key), entryId: 'nonsense' }),
    store.ledger.append([outcomeEntry('p')]),
  ]);
  t.same(
    results.map(({ status }) => status),
    ['fulfilled', 'rejected', 'fulfilled'],
  );
  t.match(results[1], { reason: { code: 'internal' } });
  t.equal((await store.ledger.read('p', '0-0', 10)).length, 2, 'and nothing is written twice');
  await store.close();
});

t.test('refuses a file that it cannot use or that a newer program has written', async (t) => {
  const directory = t.testdir({
    'text.db': 'this is not a database, but some text that is long enough to be one',
  });
  await t.rejects(openStore(`sqlite:${directory}`), { code: 'store_unavailable' });
  await t.rejects(openStore(`sqlite:${directory}/text.db`), { code: 'store_unavailable' });
  const newer = new DatabaseSync(join(directory, 'newer.db'));
  newer.exec('PRAGMA user_version = 99');
  newer.close();
  await t.rejects(openStore(`sqlite:${directory}/newer.db`), {
    code: 'store_unavailable',
    message: /version 99/,
  });
  await t.rejects(openStore('mysql://nowhere'), { code: 'config_invalid' });
});

t.test('several openers at once make one set of tables', async (t) => {
  const url = `sqlite:${t.testdir()}/consort.db`;
  const stores = await Promise.all(Array.from({ length: 4 }, () => openStore(url)));
  await Promise.all(stores.map((store) => store.ledger.append([outcomeEntry('p')])));
  t.equal((await stores[0]?.ledger.read('p', '0-0', 10))?.length, 4);
  await Promise.all(stores.map((store) => store.close()));
});

t.test('passes over an entry that it cannot read, once', async (t) => {
  const file = join(t.testdir(), 'consort.db');
  const skipped: string[] = [];
  const store = await openStore(`sqlite:${file}`, { onSkipped: (pool, id) => skipped.push(`${pool} ${id}`) });
  const entry = outcomeEntry('p');
  await store.ledger.append([entry, outcomeEntry('p')]);
  const other = new DatabaseSync(file);
  other.prepare("UPDATE entries SET body = '{}' WHERE outcome = ?").run(entry.outcome.id);
  other.close();
  const options = { pool: 'p', group: 'g', consumer: 'c', count: 10, blockMs: 0, claimIdleMs: 0 };
  t.equal((await store.ledger.follow(options)).length, 1);
  t.equal(skipped.length, 1);
  t.equal((await store.ledger.follow(options)).length, 1, 'the other is claimed again');
  t.equal(skipped.length, 1);
  t.equal(await store.ledger.outcome(entry.outcome.id), undefined);
  await store.close();
});

t.test('keeps what plans share once, and as long as an entry needs it', async (t) => {
  const file = join(t.testdir(), 'consort.db');
  const store = await openStore(`sqlite:${file}`);
  const other = new DatabaseSync(file, { readOnly: true });
  const count = other.prepare('SELECT count(*) AS count FROM plans');
  await keepsPlansOnce(t, store, () => Number(count.get()?.['count']));
  other.close();
  await store.close();
});

const keyParts = {
  pool: 'p',
  poolRevision: 'r',
  system: 's',
  protocolRevision: 'p',
  task: 't',
  source: 'x',
  bucket: 'b',
};

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 5));
}
