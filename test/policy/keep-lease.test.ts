import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { keepLease } from '../../src/policy/keep-lease.ts';
import { openStore } from '../../src/store/index.ts';

const clock = { now: () => Date.now(), elapsed: () => performance.now() };

t.test('a lease is held as long as it is renewed, by one process at a time', async (t) => {
  const { leases, close } = await open(t);
  const first = await keepLease(leases, 'train/r', 'a', clock, 200);
  t.ok(first?.isHeld());
  t.equal(await keepLease(leases, 'train/r', 'b', clock, 200), undefined, 'another has to wait');
  await sleep(500);
  t.ok(first?.isHeld(), 'renewed');
  await first?.close();
  t.notOk(first?.isHeld());
  const second = await keepLease(leases, 'train/r', 'b', clock, 200);
  t.ok((second?.token ?? 0) > (first?.token ?? 0), 'the next holder fences the one before');
  await second?.close();
  await close();
});

t.test('a holder that cannot renew stops before another may begin', async (t) => {
  const { leases, close } = await open(t);
  let isAway = false;
  const flaky = {
    release: leases.release.bind(leases),
    acquire: (...all: Parameters<typeof leases.acquire>) =>
      isAway ? Promise.reject(new Error('away')) : leases.acquire(...all),
  };
  const lease = await keepLease(flaky, 'train/r', 'a', clock, 150);
  isAway = true;
  await sleep(160);
  t.notOk(lease?.isHeld());
  await sleep(50);
  const next = await keepLease(leases, 'train/r', 'b', clock, 5_000);
  t.ok(next);
  isAway = false;
  await sleep(120);
  t.notOk(lease?.isHeld(), 'and does not come back to life when another has it');
  t.ok(next?.isHeld());
  await next?.close();
  await sleep(120);
  t.ok(await leases.acquire('train/r', 'c', 150), 'nor take it again once it is free');
  await close();
});

async function open(t: { testdir: () => string }) {
  const store = await openStore(`sqlite:${t.testdir()}/consort.db`);
  return { leases: store.leases, close: () => store.close() };
}
