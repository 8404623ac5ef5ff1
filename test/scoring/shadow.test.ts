import { createHmac } from 'node:crypto';
import t from 'tap';
import { known } from '../../src/cli/known.ts';
import { clock, newId } from '../../src/cli/natives.ts';
import { openSystem } from '../../src/cli/system.ts';
import { checkDocument } from '../../src/config/check.ts';
import { simulatedDocument } from '../../src/config/discover.ts';
import { ConsortError } from '../../src/contract/errors.ts';
import type { Outcome } from '../../src/contract/outcome.ts';
import type { Plan } from '../../src/contract/plan.ts';
import { mergedFor } from '../../src/gateway/merges.ts';
import { single } from '../../src/gateway/protocols/single.ts';
import { planOf as planFor } from '../../src/gateway/resolve.ts';
import { simRows } from '../../src/gateway/upstreams/sim/tasks.ts';
import { shadowDesigns } from '../../src/scoring/designs/index.ts';
import { verifiers } from '../../src/scoring/rewards/index.ts';
import { Scorer } from '../../src/scoring/scorer.ts';
import { Shadow, type ShadowResult, type ShadowSettings } from '../../src/scoring/shadow.ts';
import { taskOfRow } from '../../src/scoring/sweep/task-file.ts';
import { openStore } from '../../src/store/index.ts';
import { Cast, memberNamed, performPlan, planOf, TASK } from '../support/cast.ts';
import { truthOf } from '../support/sim-truth.ts';

const SETTINGS: ShadowSettings = {
  fraction: 1,
  designs: { duel: 0.5, 'leave-one-out': 0.5 },
  usdPerDay: 1_000,
  maxActive: 1_000,
};

async function site(settings: ShadowSettings, systemId = 'vote') {
  const { config } = checkDocument(simulatedDocument(false, false), known);
  const store = await openStore('sqlite::memory:');
  const outcomes: Outcome[] = [];
  const results: ShadowResult[] = [];
  const models = config!.models.map((model) => ({ ...model, failures: false, delays: false }));
  const system = openSystem(
    { ...config!, models },
    { secret: 'test', onOutcome: (outcome) => void outcomes.push(outcome), onRetry: () => undefined },
  );
  const shadow = new Shadow({
    run: system.run,
    designs: shadowDesigns,
    settingsOf: () => settings,
    mergedFor: (id, mask) => mergedFor(system.catalog.systems.get(`consort/${id}`)!, mask),
    counters: store.counters,
    random: (label) => createHmac('sha256', 'test').update(label).digest().readUIntBE(0, 6) / 2 ** 48,
    clock,
    newId,
    onResult: (_system, result) => results.push(result),
  });
  const served = system.catalog.systems.get(`consort/${systemId}`)!;
  const live = async (
    row: ReturnType<typeof simRows>[number],
    choices: { cluster?: string; coalition?: string[] } = {},
  ) => {
    const id = newId();
    const identity = { id, seed: '', promptInstance: id, tenant: 'test' };
    const plan: Plan = planFor({ catalog: system.catalog, maxStreamMs: 60_000 }, served, choices, identity);
    const options = { signal: new AbortController().signal, stream: false, trace: false };
    return shadow.run(plan, { ...taskOfRow(row, {}), label: 'sim' }, options);
  };
  return { store, outcomes, results, shadow, live, players: served.pool.members.map(({ alias }) => alias) };
}

t.test('leave-one-out and centred Shapley of live traffic come out as they are', async (t) => {
  const { store, outcomes, results, shadow, live, players } = await site(SETTINGS);
  for (const row of simRows(undefined, 1_500, 77)) {
    await live(row);
    await shadow.idle();
  }
  t.ok(results.every((result) => result === 'run'));
  await store.ledger.append(
    outcomes.map((outcome) => ({ kind: 'outcome', pool: outcome.plan.pool.id, outcome })),
  );
  const scorer = new Scorer({
    store,
    verifiers,
    clock,
    consumer: 'test',
    playersOf: () => players,
    publishMs: 0,
    retentionMs: 1e9,
    onHandled: () => undefined,
    onPublished: () => undefined,
    onLag: () => undefined,
    onError: (error) => t.error(error),
  });
  while ((await scorer.step(0)) > 0);
  await scorer.publish();
  const estimates = await store.estimates.query({ system: 'vote' });
  const truth = truthOf('vote');
  const grand = truth.grand / players.length;
  for (const [name, exact] of Object.entries(truth.loo)) {
    const subject = name.replace('/', '-');
    const loo = estimates.find((one) => one.metric === 'leave-one-out' && one.subject === subject)!;
    const centred = estimates.find((one) => one.metric === 'shapley-centred' && one.subject === subject)!;
    t.ok(loo.clusters > 100 && centred.clusters > 600, `${loo.clusters} pairs, ${centred.clusters} duels`);
    t.ok(Math.abs(loo.value - exact) < 4 * loo.standardError, `leave-one-out of ${subject}`);
    t.ok(
      Math.abs(centred.value - (truth.shapley[name]! - grand)) < 4 * centred.standardError,
      `centred Shapley of ${subject}`,
    );
    t.ok(loo.interval[0] < exact && exact < loo.interval[1], 'inside its anytime-valid interval');
  }
  await store.close();
});

t.test('records why and with what probability each coalition was run', async (t) => {
  const { store, outcomes, shadow, live } = await site({ ...SETTINGS, fraction: 0.5 });
  for (const row of simRows(undefined, 200, 78)) {
    await live(row);
    await shadow.idle();
  }
  const lives = outcomes.filter(({ plan }) => plan.parent === undefined);
  const sampled = new Set(outcomes.flatMap(({ plan }) => plan.parent ?? []));
  t.equal(lives.length, 200);
  t.ok(sampled.size > 70 && sampled.size < 130, `${sampled.size} of 200 were sampled`);
  for (const { plan, intended } of outcomes) {
    if (plan.parent === undefined) continue;
    const parent = lives.find(({ id }) => id === plan.parent)!;
    t.equal(plan.promptInstance, parent.plan.promptInstance);
    // Leave-one-out: 0.5 × 0.5 / 5. Duel: by the size law, both orders of the pair.
    const expected = plan.design === 'loo' ? 0.05 : duelPropensity(intended);
    t.ok(Math.abs((plan.choice.propensity ?? 0) - expected) < 1e-12, `${plan.design} of ${intended}`);
  }
  await store.close();
});

/** 0.25 times the probability that a pair with this half is drawn in a pool of five. */
function duelPropensity(mask: number): number {
  const size = [1, 2, 4, 8, 16].filter((bit) => mask & bit).length;
  const weights = [1, 2, 3, 4].map((s) => 1 / (s * (5 - s)));
  const probability = 1 / (size * (5 - size)) / weights.reduce((a, b) => a + b, 0);
  const pairs = [5, 10, 10, 5][size - 1]!;
  return 0.25 * ((2 * probability) / pairs);
}

t.test('stays within its budget, and says what it left out', async (t) => {
  const { store, outcomes, results, shadow, live } = await site({ ...SETTINGS, usdPerDay: 0.2 }, 'debate');
  for (const row of simRows(undefined, 100, 79)) {
    await live(row);
    await shadow.idle();
  }
  const spent = outcomes
    .filter(({ plan }) => plan.parent !== undefined)
    .reduce((sum, { costMicros }) => sum + costMicros, 0);
  // The last one under way may cost more than its live run did, which is what was reserved for it.
  const dearest = Math.max(...outcomes.map(({ costMicros }) => costMicros));
  t.ok(spent > 50_000 && spent <= 200_000 + dearest, `${spent / 1e6} USD of 0.2 USD`);
  t.ok(results.includes('budget') && results.includes('run'));
  await store.close();
});

t.test(
  'runs one prompt a cluster, and only what a whole team answered and a verifier can judge',
  async (t) => {
    const { store, outcomes, results, shadow, live } = await site(SETTINGS);
    const rows = simRows(undefined, 4, 80);
    for (const row of rows.slice(0, 3)) await live(row, { cluster: 'one-user' });
    await shadow.idle();
    t.same(results.toSorted(), ['repeated', 'repeated', 'run']);
    const before = outcomes.length;
    await live(rows[3]!, { coalition: ['sim-atlas'] });
    const { gold: _gold, ...ungraded } = rows[3]!;
    await live({ ...ungraded, gold: undefined });
    await shadow.idle();
    t.equal(
      outcomes.length,
      before + 2,
      'neither a smaller coalition nor a prompt without a gold answer is run again',
    );
    await store.close();
  },
);

t.test('the coalitions of merged weights are run again as their own models', async (t) => {
  const store = await openStore('sqlite::memory:');
  const cast = new Cast(() => ({ words: ['16'] }));
  const results: ShadowResult[] = [];
  const merged = new Map([0b111, 0b011, 0b101].map((mask) => [mask, memberNamed(`merged-${mask}`)]));
  const shadow = new Shadow({
    run: (plan, task, options) => performPlan(single, cast, plan, { task, ...options }),
    designs: shadowDesigns,
    settingsOf: () => ({ ...SETTINGS, designs: { duel: 0, 'leave-one-out': 1 } }),
    mergedFor(_system, mask) {
      if (!merged.has(mask)) throw new ConsortError('coalition_unmerged', []);
      return merged.get(mask);
    },
    counters: store.counters,
    random: (label) => createHmac('sha256', 'test').update(label).digest().readUIntBE(0, 6) / 2 ** 48,
    clock,
    newId,
    onResult: (_system, result) => results.push(result),
  });
  const pool = { id: 'pool', revision: 'r', size: 3 };
  for (let prompt = 0; prompt < 20; prompt++) {
    const names = { promptInstance: `${prompt}`, cluster: `${prompt}` };
    const plan = planOf(single, {}, [0, 1, 2], { pool, merged: merged.get(0b111)!, ...names });
    const task = { ...TASK, gold: '16', verifier: 'exact-match' };
    const signal = new AbortController().signal;
    await shadow.run(plan, task, { signal, stream: false, trace: false });
    await shadow.idle();
  }
  const again = cast.seen.map(({ call }) => call.member.alias).filter((alias) => alias !== 'merged-7');
  t.same(new Set(again), new Set(['merged-3', 'merged-5']));
  t.equal(again.length, results.filter((result) => result === 'run').length);
  t.equal(
    results.filter((result) => result === 'failed').length,
    20 - again.length,
    'what is not merged is counted as failed',
  );
  t.ok(again.length < 20);
  await store.close();
});
