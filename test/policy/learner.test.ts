import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import t, { type Test } from 'tap';
import { ConsortError } from '../../src/contract/errors.ts';
import { PromptOrder } from '../../src/policy/prompt-order.ts';
import { readGroups, readManifest } from '../../src/policy/shards.ts';
import type { Heard } from '../support/tinker-server.ts';
import { advanceTo, collected, CONFIG, ITEMS, learnerOn } from './learner-site.ts';
import { RUN, siteOf, type Site } from './trainers/site.ts';

const ROUNDS = 4;
const child = fileURLToPath(new URL('learner-child.ts', import.meta.url));
const shardsOf = (site: Site) => join(site.directory, RUN.run, 'groups');

async function finish(site: Site): Promise<void> {
  for (let attempt = 0; attempt < 20; attempt++) {
    try {
      const { learner, trainer } = await learnerOn(site.fake.url, site.directory);
      try {
        await advanceTo(learner, ROUNDS);
        return;
      } finally {
        await trainer.close();
      }
    } catch (error) {
      if (!ConsortError.is(error) || !error.retryable) throw error;
    }
  }
  throw new Error('it does not come to an end');
}

async function undisturbed(t: Test) {
  const site = await siteOf(t);
  await finish(site);
  const requests = site.fake.heard.filter(({ path }) => path !== 'session_heartbeat').length;
  return { site, requests };
}

t.test('a run goes batch by batch, and its curve says what happened', async (t) => {
  const site = await siteOf(t);
  const { learner, trainer } = await learnerOn(site.fake.url, site.directory);
  t.teardown(() => trainer.close());
  const points = await advanceTo(learner, ROUNDS);
  t.same(
    points.map(({ round, groups }) => [round, groups]),
    [1, 2, 3, 4].map((round) => [round, 2]),
  );
  t.equal(learner.step, site.fake.steps.length, 'a batch without anything to teach is no step');
  t.ok(learner.step > 0);
  const groups = await Array.fromAsync(readGroups(shardsOf(site)));
  t.same(
    groups.map(({ objective }) => objective),
    ['team', 'solo', 'team', 'solo', 'team', 'solo', 'team', 'solo'],
    'mix takes turns over the whole run',
  );
  for (const [at, { rewards, accepted, reasons, step }] of points.entries()) {
    const own = groups.slice(2 * at, 2 * at + 2);
    t.equal(accepted, own.filter(({ filter }) => filter.accepted).length);
    t.equal(reasons['rewards-equal'] ?? 0, 2 - accepted);
    t.same(
      rewards.map(({ objective, mean }) => [objective, mean]),
      own.toReversed().map(({ objective, baseline }) => [objective, baseline.mean]),
    );
    t.ok(
      own.every(({ policy }) => policy.version === (points[at - 1]?.step ?? 0)),
      'sampled from the newest',
    );
    t.ok(step <= at + 1);
  }
});

t.test(
  'a learner killed at any request goes on with the same groups: no step twice, no group lost',
  async (t) => {
    const { site: calm, requests } = await undisturbed(t);
    const expected = (await Array.fromAsync(readGroups(shardsOf(calm)))).map(({ groupId }) => groupId);
    t.ok(requests > 20, `${requests} places to be killed at`);
    for (let index = 0; index < requests; index += 3) {
      const site = await siteOf(t);
      const running = spawn(process.execPath, [child, site.fake.url, site.directory, `${ROUNDS}`], {
        stdio: ['ignore', 'ignore', 'inherit'],
      });
      const gone = once(running, 'exit');
      let beats = 0;
      let isDone = false;
      site.fake.fate = ({ path, index: at }: Heard) => {
        if (path === 'session_heartbeat') beats += 1;
        if (isDone || at - beats !== index) return undefined;
        isDone = true;
        running.kill('SIGKILL');
        return gone.then(() => (index % 2 === 0 ? ('lost' as const) : ('unanswered' as const)));
      };
      await gone;
      await finish(site);
      const groups = (await Array.fromAsync(readGroups(shardsOf(site)))).map(({ groupId }) => groupId);
      t.strictSame(groups, expected, `killed at request ${index}: the same groups in the same order`);
      t.strictSame(site.fake.steps, calm.fake.steps, `killed at request ${index}: the same steps, each once`);
    }
  },
);

t.test('what a crash leaves of the curve is made whole', async (t) => {
  const site = await siteOf(t);
  await finish(site);
  appendFileSync(join(site.directory, RUN.run, 'curve.jsonl'), '{"round":5,"step":4,"at"');
  const { learner, trainer } = await learnerOn(site.fake.url, site.directory);
  t.teardown(() => trainer.close());
  t.equal(learner.points.length, ROUNDS);
  t.same(
    (await advanceTo(learner, ROUNDS + 1)).map(({ round }) => round),
    [ROUNDS + 1],
  );
  t.equal((await readManifest(shardsOf(site))).shards.length, ROUNDS + 1);
});

t.test('prompts are drawn in waves until a batch has something to teach', async (t) => {
  const site = await siteOf(t);
  const config = { ...CONFIG, batch: 3, waves: 10 };
  const { learner, trainer } = await learnerOn(site.fake.url, site.directory, { config });
  t.teardown(() => trainer.close());
  for (const { accepted, groups } of await advanceTo(learner, 3)) {
    t.equal(accepted, 3);
    t.ok(groups >= 3 && groups <= 9);
  }
});

t.test('a run that learns nothing says so and ends', async (t) => {
  const site = await siteOf(t);
  const dull = ITEMS.filter(({ index }) => index % 3 === 0);
  const { learner, trainer } = await learnerOn(site.fake.url, site.directory, {
    prompts: new PromptOrder(dull, 0),
  });
  t.teardown(() => trainer.close());
  await t.rejects(advanceTo(learner, 50), { code: 'train_no_signal', message: /10 batches.*rewards-equal/ });
  t.equal(site.fake.steps.length, 0);
});

t.test('a run that is stopped while it rolls out keeps nothing of that batch', async (t) => {
  const site = await siteOf(t);
  const control = new AbortController();
  let groups = 0;
  const { learner, trainer } = await learnerOn(site.fake.url, site.directory, {
    signal: control.signal,
    collect(order) {
      if (++groups === 4) control.abort();
      return Promise.resolve(collected(order));
    },
  });
  t.teardown(() => trainer.close());
  t.equal((await advanceTo(learner, ROUNDS)).length, 1);
  t.equal((await readManifest(shardsOf(site))).shards.length, 1);
});

t.test('prompts are visited once an epoch, in an order of the seed', (t) => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 40 }), fc.nat(), (count, seed) => {
      const items = Array.from({ length: count }, (_, index) => ({ id: `i${index}` }));
      const order = new PromptOrder(items, seed);
      const visits = Array.from({ length: 3 * count }, (_, index) => order.at(index));
      const again = new PromptOrder(items, seed);
      for (const epoch of [0, 1, 2]) {
        const part = visits.slice(epoch * count, (epoch + 1) * count);
        if (new Set(part.map(({ item }) => item)).size !== count) return false;
        if (part.some(({ visit }) => visit !== epoch)) return false;
      }
      const last = 3 * count - 1;
      return again.at(last).item === visits[last]?.item && again.at(0).item === visits[0]?.item;
    }),
  );
  const orders = [0, 1].map((seed) =>
    ITEMS.map((_, index) => new PromptOrder(ITEMS, seed).at(index).item.id),
  );
  t.notSame(orders[0], orders[1]);
  t.throws(() => new PromptOrder([], 0), RangeError);
  t.end();
});
