import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import t from 'tap';
import { near } from './near.ts';
import { duelRow } from '../../src/scoring/estimators/duel.ts';
import { fromPrompts, type PromptRewards } from '../../src/scoring/estimators/from-prompts.ts';
import { fromTallies } from '../../src/scoring/estimators/from-tallies.ts';
import { gameOf } from '../../src/scoring/estimators/game.ts';
import { allIndices } from '../../src/scoring/estimators/indices.ts';
import type { Measured } from '../../src/scoring/estimators/measured.ts';
import { addTallies, parseTallies } from '../../src/scoring/estimators/tally-fields.ts';
import { MASKS4, panelOf, pool, simulate, values } from './simulated-panel.ts';

const { duel: duelVector } = JSON.parse(
  readFileSync(new URL('../fixtures/vectors/statistics.json', import.meta.url), 'utf8'),
);

t.test('duel sums give the values and covariance of their rows', async (t) => {
  const { n, rows, phiCentered, sampleCov } = duelVector;
  const fields = new Map<string, bigint>();
  const add = (field: string, value: bigint) => fields.set(field, (fields.get(field) ?? 0n) + value);
  const direct = [0, 0, 0, 0];
  for (const [mask, own, other] of rows as [number, number, number][]) {
    duelRow(n, mask, own, other).forEach((value, i) => (direct[i] = (direct[i] ?? 0) + value / rows.length));
    const e = [0, 1, 2, 3].map((i) => {
      const inside = (mask >> i) & 1;
      const size = [0, 1, 2, 3].filter((k) => ((mask >> k) & 1) === inside).length;
      return BigInt((n - size) * (inside ? 1 : -1) * (own - other) * 10_000);
    });
    add('D:n', 1n);
    e.forEach((value, i) => {
      add(`D:${i}`, value);
      e.forEach((twin, j) => (j >= i ? add(`D:${i}:${j}`, value * twin) : undefined));
    });
  }
  near(t, direct, phiCentered, 1e-14, 'rows');
  const { duel } = fromTallies(fields, { n, validity: 'fixed' });
  near(t, values(duel), phiCentered, 1e-14, 'sums');
  const covariance = duel?.covariance.map((row) => row.map((value) => value * rows.length));
  near(t, covariance, sampleCov, 1e-12, 'covariance');
  t.equal(fromTallies(new Map(), { n }).duel, undefined, 'no duel, no estimate');
});

/** The sums that a store would keep of these prompts, in buckets of ten, and nothing but sums. */
function tally(prompts: readonly PromptRewards[]) {
  const buckets: Map<string, bigint>[] = [];
  prompts.forEach(({ rewards }, p) => {
    const bucket = (buckets[Math.floor(p / 10)] ??= new Map());
    const add = (field: string, value: number) =>
      bucket.set(field, (bucket.get(field) ?? 0n) + BigInt(value));
    const scaled = MASKS4.map((_, k) => Math.round(10_000 * (rewards[k] ?? NaN)));
    const grand = scaled[14] ?? NaN;
    scaled.forEach((r, k) => {
      const mask = k + 1;
      const d = r - grand;
      [`n:1`, `s:${r}`, `q:${r * r}`].forEach((entry) =>
        add(`${mask}:${entry.split(':')[0]}`, Number(entry.split(':')[1])),
      );
      if (mask === 15) return;
      add(`${mask}:dn`, 1);
      add(`${mask}:ds`, d);
      add(`${mask}:dq`, d * d);
      if (d > 0) add(`${mask}:dp`, 1);
      if (d < 0) add(`${mask}:dm`, 1);
    });
    const one = allIndices(
      gameOf(pool.players, Float64Array.from([0, ...MASKS4.map((_, k) => rewards[k] ?? NaN)])),
    );
    const row = [...one.individual, ...one.loo, ...one.shapleyCentered, grand / 10_000].map((d) =>
      Math.round(1e5 * d),
    );
    const names = [...['u', 'l', 'c'].flatMap((letter) => [0, 1, 2, 3].map((i) => `${letter}${i}`)), 'g'];
    names.forEach((name, i) => {
      add(`F:${name}:n`, 1);
      add(`F:${name}:s`, row[i] ?? NaN);
      add(`F:${name}:q`, (row[i] ?? NaN) ** 2);
      names
        .slice(i + 1)
        .forEach((other, k) => add(`F:${name}:${other}`, (row[i] ?? NaN) * (row[i + 1 + k] ?? NaN)));
    });
  });
  return buckets;
}

t.test('sums give what the prompts give, for binary and for real rewards', async (t) => {
  const binary = simulate(11, 70);
  const real = binary.map((prompt) => ({
    ...prompt,
    rewards: MASKS4.map((_, k) => 0.1 + 0.77 * (prompt.rewards[k] ?? NaN)),
  }));
  for (const prompts of [binary, real]) {
    const direct = fromPrompts(panelOf(prompts));
    const found = fromTallies(addTallies(tally(prompts)), { n: 4, validity: 'fixed' });
    const both: [string, Measured | undefined, Measured | undefined, number][] = [
      ['grand', found.grand, direct.grand, 1e-12],
    ];
    for (const [mask, one] of direct.cells) both.push([`v(${mask})`, found.cells.get(mask), one, 1e-12]);
    direct.loo.estimates.forEach((one, i) => both.push([`loo ${i}`, found.loo[i], one, 1e-12]));
    direct.loo.estimates.forEach((one, i) =>
      both.push([`row loo ${i}`, found.panelLoo?.estimates[i], { ...one, method: 't' }, 2e-5]),
    );
    direct.shapley?.estimates.forEach((one, i) =>
      both.push([`shapley ${i}`, found.shapley?.estimates[i], one, 2e-5]),
    );
    direct.shapleyCentered?.estimates.forEach((one, i) =>
      both.push([`centred ${i}`, found.shapleyCentered?.estimates[i], one, 2e-5]),
    );
    for (const [name, a, b, tolerance] of both) {
      near(t, [a?.value, a?.standardError], [b?.value, b?.standardError], tolerance, name);
      t.equal(a?.method, b?.method, `${name} method`);
      if (tolerance < 1e-6)
        near(t, [...(a?.interval ?? [])], [...(b?.interval ?? [])], 1e-11, `${name} interval`);
    }
    near(t, found.shapleyCentered?.covariance, direct.shapleyCentered?.covariance, 1e-6, 'covariance');
    near(t, found.individual?.covariance, direct.individual?.covariance, 1e-6, 'covariance of strengths');
  }
  const live = fromTallies(addTallies(tally(binary)), { n: 4 });
  t.equal(live.grand?.method, 'asymp-cs', 'sums that grow get anytime-valid intervals');
  const fixed = fromTallies(addTallies(tally(binary)), { n: 4, validity: 'fixed' });
  t.ok(
    live.loo.every((one, i) => (one?.interval[0] ?? NaN) <= (fixed.loo[i]?.interval[0] ?? NaN)),
    'which are wider',
  );
  t.match(live.loo[0], { binary: true, wins: Number, losses: Number });
});

t.test('sums merge in any order, at any size, and gaps stay gaps', async (t) => {
  const buckets = tally(simulate(13, 50));
  const wanted = addTallies(buckets);
  fc.assert(
    fc.property(fc.shuffledSubarray(buckets, { minLength: buckets.length }), (order) => {
      const merged = addTallies(order);
      return (
        [...wanted].every(([field, value]) => merged.get(field) === value) && merged.size === wanted.size
      );
    }),
  );
  const huge = 10n ** 17n;
  const many = parseTallies([
    ['15:n', String(2n * huge)],
    ['15:s', String(huge * 10_000n)],
    ['15:q', String(huge * 10n ** 8n)],
  ]);
  near(t, fromTallies(many, { n: 4, validity: 'fixed' }).grand?.value, 0.5, 1e-15, 'beyond 2^53');
  t.throws(() => parseTallies([['15:n', '1.5']]), RangeError);
  t.throws(() => parseTallies([['15:n', 2 ** 60]]), RangeError, 'a number that may have lost digits');
  const sparse = fromTallies(
    parseTallies([
      ['7:n', 3],
      ['7:s', 20_000],
      ['7:q', 2e8],
    ]),
    { n: 4 },
  );
  t.equal(sparse.grand, undefined);
  t.same(sparse.loo, [undefined, undefined, undefined, undefined]);
  const uneven = new Map(wanted).set('F:c1:n', 49n);
  t.equal(
    fromTallies(uneven, { n: 4 }).shapleyCentered,
    undefined,
    'rows of different prompts have no covariance',
  );
});
