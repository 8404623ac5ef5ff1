import { Redis } from 'ioredis';
import t, { type Test } from 'tap';
import type { Store } from '../../src/contract/store.ts';
import { openStore } from '../../src/store/index.ts';
import { eventOf, outcomeEntry, rewardEntry } from '../conformance/store-fixtures.ts';
import { keepsPlansOnce } from '../conformance/store-plans.ts';
import { storeConformance } from '../conformance/store.ts';
import { startRedis } from '../support/redis.ts';

async function onServer(t: Test) {
  const server = await startRedis({ durable: true });
  t.teardown(() => server.stop());
  return {
    open: () => openStore(server.url),
    restart: async () => {
      await server.kill();
      await server.start();
    },
  };
}

storeConformance(t, 'a Redis server', onServer);

const waitingIn = (pool: string, blockMs: number) => ({
  pool,
  group: 'g',
  consumer: 'c',
  count: 10,
  blockMs,
  claimIdleMs: 60_000,
});

t.test('a server that stops answering fails calls in time, and is found again', async (t) => {
  const server = await startRedis();
  const heard: string[] = [];
  const options = { timeoutMs: 200, onDown: () => heard.push('down'), onUp: () => heard.push('up') };
  const store = await openStore(server.url, options);
  await store.ledger.append([outcomeEntry('p')]);
  server.signal('SIGSTOP');
  const began = performance.now();
  const calls = [
    store.ping(),
    store.ledger.append([outcomeEntry('p')]),
    store.ledger.follow(waitingIn('p', 50)),
  ];
  for (const result of await Promise.allSettled(calls)) {
    t.match(result, { status: 'rejected', reason: { code: 'store_unavailable', retryable: true } });
  }
  t.ok(performance.now() - began < 1_000, 'within the time-out');
  await t.rejects(store.ping(), { code: 'store_unavailable' }, 'and at once from then on');
  server.signal('SIGCONT');
  await answers(store);
  t.same(heard, ['down', 'up']);
  t.ok((await store.ledger.read('p', '0-0', 10)).length >= 1);
  await store.close();
  await server.stop();
});

t.test('a server that is killed and comes back has everything, and its clients find it', async (t) => {
  const server = await startRedis({ durable: true });
  const store = await openStore(server.url, { timeoutMs: 1_000 });
  const entries = Array.from({ length: 20 }, () => outcomeEntry('p'));
  await store.ledger.append(entries);
  const waiting = t.rejects(store.ledger.follow(waitingIn('empty', 30_000)), { code: 'store_unavailable' });
  await store.ping();
  await server.kill();
  await waiting;
  await t.rejects(store.ledger.append(entries), { code: 'store_unavailable' });
  await server.start();
  await answers(store);
  await store.ledger.append([...entries, outcomeEntry('p')]);
  t.equal((await store.ledger.follow(waitingIn('p', 1_000))).length, 10);
  t.equal((await store.ledger.read('p', '0-0', 100)).length, 21);
  await store.close();
  await server.stop();
});

t.test('one server for the rest', async (t) => {
  // As a cluster of one, a server refuses every script whose keys are not in one slot.
  const server = await startRedis({ args: ['--cluster-enabled', 'yes'] });
  const raw = new Redis(server.url);
  await raw.call('CLUSTER', 'ADDSLOTSRANGE', '0', '16383');
  await until(async () => String(await raw.call('CLUSTER', 'INFO')).includes('cluster_state:ok'));
  const skipped: string[] = [];
  const store = await openStore(server.url, { onSkipped: (pool, id) => skipped.push(`${pool} ${id}`) });
  t.teardown(async () => {
    await store.close();
    raw.disconnect();
    await server.stop();
  });

  t.test('a waiting consumer delays nobody', async (t) => {
    const waiting = store.ledger.follow(waitingIn('quiet', 600));
    await until(async () => String(await raw.client('LIST')).includes('cmd=xreadgroup'));
    const began = performance.now();
    await store.ping();
    t.ok(performance.now() - began < 200);
    t.same(await waiting, []);
  });

  t.test('scripts touch one slot, whatever the pool is called', async (t) => {
    const pool = 'odd:{pool}%';
    const entry = outcomeEntry(pool);
    await store.ledger.append([entry, outcomeEntry(pool)]);
    const key = {
      pool,
      poolRevision: '{r}',
      system: 's:',
      protocolRevision: 'p',
      task: 't',
      source: 'x',
      bucket: 'b',
    };
    t.equal(await store.tallies.apply(eventOf(key)), 'new');
    t.equal((await store.tallies.read(key)).get('1:s'), 5_000n);
    t.same(await store.ledger.outcome(entry.outcome.id), entry.outcome);
    await t.rejects(raw.eval('return 1', 2, 'one', 'another'), /same slot/, 'this server would refuse it');
  });

  t.test('an append that died half-way is healed by the next try', async (t) => {
    const entry = outcomeEntry('half');
    await raw.set(`consort:outcome:${entry.outcome.id}`, 'half');
    t.equal(await store.ledger.outcome(entry.outcome.id), undefined);
    await store.ledger.append([entry]);
    t.same(await store.ledger.outcome(entry.outcome.id), entry.outcome);
    t.equal((await store.ledger.read('half', '0-0', 10)).length, 1);
  });

  t.test('what is kept for a time is forgotten after it', async (t) => {
    const short = await openStore(server.url, { retentionMs: 1_000 });
    const entry = outcomeEntry('short');
    await short.ledger.append([entry]);
    const key = {
      pool: 'short',
      poolRevision: 'r',
      system: 's',
      protocolRevision: 'p',
      task: 't',
      source: 'x',
    };
    await short.tallies.apply(eventOf({ ...key, bucket: 'b' }));
    const keys = await raw.keys('consort:*short*:join:*');
    keys.push(`consort:outcome:${entry.outcome.id}`, `consort:{short}:outcome:${entry.outcome.id}`);
    t.equal(keys.length, 3);
    for (const name of keys) {
      const left = await raw.pttl(name);
      t.ok(left > 86_400_000 && left <= 86_401_000, name);
    }
    await short.close();
  });

  t.test('passes over an entry that it cannot read, once', async (t) => {
    await store.ledger.append([outcomeEntry('torn')]);
    const id = String(await raw.xadd('consort:{torn}:entries', '*', 'entry', '{"kind":'));
    const options = { ...waitingIn('torn', 0), claimIdleMs: 0 };
    t.equal((await store.ledger.follow(options)).length, 1);
    t.same(skipped, [`torn ${id}`]);
    t.equal((await store.ledger.follow(options)).length, 1, 'the other is claimed again');
    t.equal(skipped.length, 1);
  });

  t.test('keeps what plans share once, and as long as an entry needs it', (t) =>
    keepsPlansOnce(t, store, (pool) => raw.hlen(`consort:{${pool}}:plans`)),
  );

  t.test('a group that the server has lost is made again', async (t) => {
    await store.ledger.append([outcomeEntry('lost')]);
    t.equal((await store.ledger.follow(waitingIn('lost', 100))).length, 1);
    await raw.del('consort:{lost}:entries');
    await store.ledger.append([rewardEntry('lost', 'o', 1)]);
    t.equal((await store.ledger.follow(waitingIn('lost', 100))).length, 1);
  });
});

t.test('a server that is not there yet fails calls, not the opening', async (t) => {
  const server = await startRedis();
  await server.kill();
  const store = await openStore(server.url, { timeoutMs: 100 });
  await t.rejects(store.ping(), { code: 'store_unavailable' });
  await t.rejects(store.ledger.follow(waitingIn('p', 100)), { code: 'store_unavailable' });
  await server.start();
  await answers(store);
  await store.close();
  await server.stop();
});

async function answers(store: Store): Promise<void> {
  await until(() =>
    store.ping().then(
      () => true,
      () => false,
    ),
  );
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds())) await new Promise((resolve) => setTimeout(resolve, 10));
}
