import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { request } from 'undici';
import t, { type Test } from 'tap';
import { simulatedDocument } from '../../src/config/discover.ts';
import { simRows } from '../../src/gateway/upstreams/sim/tasks.ts';
import { openStore } from '../../src/store/index.ts';
import { startRedis } from '../support/redis.ts';
import { Site, type Served } from '../support/serve.ts';

const KILLS = 3;
const CLIENTS = 8;
const LOAD_MS = 900;

/** Sends graded requests until told to stop; returns the outcomes whose responses arrived whole. */
async function load(gateway: Served, rows: Iterator<ReturnType<typeof simRows>[number]>, until: AbortSignal) {
  const completed: string[] = [];
  const client = async () => {
    while (!until.aborted) {
      const row = rows.next().value as ReturnType<typeof simRows>[number];
      const body = JSON.stringify({
        model: 'consort/vote',
        stream: Math.random() < 0.5,
        messages: [{ role: 'user', content: row.prompt }],
        consort: { gold: row.gold, verifier: 'exact-match', task: 'crash' },
      });
      const headers = { 'content-type': 'application/json' };
      try {
        const response = await request(`${gateway.url}/v1/chat/completions`, {
          method: 'POST',
          headers,
          body,
        });
        const text = await response.body.text();
        const whole = text.endsWith('data: [DONE]\n\n') || text.endsWith('}');
        if (whole && response.statusCode === 200)
          completed.push(String(response.headers['x-consort-outcome']));
      } catch {
        // The gateway died under this request: the client knows that it got nothing.
      }
    }
  };
  await Promise.all(Array.from({ length: CLIENTS }, client));
  return completed;
}

/** Everything that the store has: outcome ids as often as they are there, and the tallied rewards. */
async function recount(url: string) {
  const store = await openStore(url);
  const ids: string[] = [];
  for (const pool of await store.ledger.pools()) {
    for (let after = '0-0'; ;) {
      const entries = await store.ledger.read(pool, after, 1000);
      for (const { entry } of entries) if (entry.kind === 'outcome') ids.push(entry.outcome.id);
      if (entries.length === 0) break;
      after = entries.at(-1)!.id;
    }
  }
  let tallied = 0n;
  for (const key of await store.tallies.keys({ system: 'vote' })) {
    for (const [field, value] of await store.tallies.read(key))
      if (/^\d+:[nx]$/.test(field)) tallied += value;
  }
  await store.close();
  return { ids, tallied: Number(tallied) };
}

async function crashes(t: Test, url: string, between: () => Promise<void>) {
  const isApart = !url.startsWith('sqlite:');
  const document = simulatedDocument(false, false) as object;
  const server = { port: 0, adminPort: 0 };
  const site = new Site({ ...document, server, store: { url } });
  t.teardown(() => site.close());
  const storeUrl = !isApart ? `sqlite:${join(site.directory, url.slice(7))}` : url;
  const rows = simRows(undefined, 100_000, 9).values();
  const completed: string[] = [];
  for (let round = 0; round <= KILLS; round++) {
    const gateway = await site.serve();
    // With Redis the scorer is a process of its own; it dies as well.
    const scorer = isApart ? await site.score() : undefined;
    const control = new AbortController();
    const loading = load(gateway, rows, control.signal);
    await sleep(LOAD_MS);
    if (round === KILLS) {
      control.abort();
      completed.push(...(await loading));
      await settled(t, storeUrl);
      await gateway.kill('SIGTERM');
      await scorer?.kill('SIGTERM');
    } else {
      if (round === 1) await between();
      await gateway.kill('SIGKILL');
      await scorer?.kill('SIGKILL');
      control.abort();
      completed.push(...(await loading));
    }
  }
  const { ids, tallied } = await recount(storeUrl);
  const distinct = new Set(ids);
  t.ok(completed.length > 100, `${completed.length} responses arrived whole under ${KILLS} kills`);
  t.equal(ids.length, distinct.size, 'no outcome is in the ledger twice');
  t.same(
    completed.filter((id) => !distinct.has(id)),
    [],
    'every completed response is in the ledger',
  );
  t.equal(tallied, distinct.size, 'every outcome is in the tallies exactly once');
}

/** Waits until the ledger and the tallies have stood still and agree, or gives up. */
async function settled(t: Test, url: string) {
  let last = -1;
  for (let i = 0; i < 100; i++) {
    const { ids, tallied } = await recount(url);
    if (tallied === last && tallied === new Set(ids).size) return;
    last = tallied;
    await sleep(200);
  }
  t.comment('the tallies did not settle in time');
}

t.test('kill -9 of the gateway under load loses and doubles nothing, on SQLite', async (t) => {
  await crashes(t, 'sqlite:consort.db', () => Promise.resolve());
});

t.test('kill -9 of the gateway, the scorer and Redis under load loses and doubles nothing', async (t) => {
  const redis = await startRedis({ durable: true });
  t.teardown(() => redis.stop());
  await crashes(t, redis.url, async () => {
    await redis.kill();
    await sleep(300);
    await redis.start();
  });
});
