import { uniformFloat64 } from 'pure-rand/distribution/uniformFloat64';
import { xoroshiro128plus } from 'pure-rand/generator/xoroshiro128plus';
import t from 'tap';
import { near } from './near.ts';
import { fromPrompts, type Panel } from '../../src/scoring/estimators/from-prompts.ts';
import { gameOf } from '../../src/scoring/estimators/game.ts';
import { allIndices } from '../../src/scoring/estimators/indices.ts';
import type { Measured } from '../../src/scoring/estimators/measured.ts';
import { extraPrompts, statusOf, type StatusInput } from '../../src/scoring/estimators/status.ts';
import { synergyOverBest } from '../../src/scoring/estimators/synergy-over-best.ts';
import { translation } from '../../src/scoring/estimators/translation.ts';
import { bonettPriceInterval } from '../../src/scoring/statistics/bonett-price.ts';
import { clusterMean, clusterSums } from '../../src/scoring/statistics/cluster-sums.ts';
import { studentQuantile } from '../../src/scoring/statistics/special-functions.ts';
import { wilsonInterval } from '../../src/scoring/statistics/wilson.ts';
import { MASKS4, panelOf, pool, simulate, values } from './simulated-panel.ts';

const truth = allIndices(pool);

t.test('a panel gives the indices of its own mean game', async (t) => {
  const prompts = simulate(3, 40);
  const found = fromPrompts(panelOf(prompts));
  const means = Float64Array.from({ length: 16 }, (_, mask) => {
    return mask === 0
      ? 0
      : prompts.reduce((sum, { rewards }) => sum + (rewards[mask - 1] ?? NaN), 0) / prompts.length;
  });
  const indices = allIndices(gameOf(pool.players, means));
  const kinds = ['individual', 'loo', 'shapley', 'shapleyCentered', 'shapleyCompositional'] as const;
  for (const kind of kinds) near(t, values(found[kind]), indices[kind], 1e-12, kind);
  for (const [mask, { value }] of found.cells) near(t, value, means[mask], 1e-12, `v(${mask})`);
  near(t, found.grand.value, means[15], 1e-12, 'v(N)');
  found.synergyGrand.forEach((row, i) =>
    row.forEach((one, j) =>
      near(t, one?.value ?? 0, indices.synergyGrand[i]?.[j], 1e-12, `synergy ${i},${j}`),
    ),
  );
  for (const kind of kinds) {
    const { estimates, covariance } = found[kind] ?? { estimates: [], covariance: [] };
    estimates.forEach(({ standardError }, i) =>
      near(t, standardError ** 2, covariance[i]?.[i], 1e-15, `${kind} error`),
    );
  }
  const sum = found.shapleyCentered?.covariance.flat().reduce((a, b) => a + b, 0) ?? NaN;
  near(t, sum, 0, 1e-15, 'centred values have no variance in sum');
});

t.test('intervals fit the kind of number: shares, paired shares, real values', async (t) => {
  const prompts = simulate(5, 60);
  const found = fromPrompts(panelOf(prompts));
  const grand = prompts.filter(({ rewards }) => rewards[14] === 1).length;
  t.equal(found.grand.method, 'wilson');
  near(t, [...found.grand.interval], [...wilsonInterval(grand, 60, 0.05)], 1e-12, 'v(N)');
  const differences = prompts.map(({ rewards }) => (rewards[14] ?? NaN) - (rewards[13] ?? NaN));
  const [wins, losses] = [1, -1].map((sign) => differences.filter((value) => value === sign).length);
  const [first] = found.loo.estimates;
  t.equal(first?.method, 'bonett-price');
  t.equal(first?.discordant, (wins ?? 0) + (losses ?? 0));
  near(
    t,
    [...(first?.interval ?? [])],
    [...bonettPriceInterval(wins ?? 0, losses ?? 0, 60, 0.05)],
    1e-12,
    'loo',
  );
  const phi = found.shapley?.estimates[0];
  t.equal(phi?.method, 't');
  const radius = studentQuantile(0.975, 59) * (phi?.standardError ?? NaN);
  near(t, (phi?.interval[1] ?? NaN) - (phi?.value ?? NaN), radius, 1e-12, 'Shapley');
  const halves = prompts.map((prompt) => ({
    ...prompt,
    rewards: MASKS4.map((_, k) => (prompt.rewards[k] ?? 0) / 2),
  }));
  t.equal(fromPrompts(panelOf(halves)).grand.method, 't', 'rewards between 0 and 1 are no shares');
});

t.test('clusters, not prompts, carry the evidence', async (t) => {
  const prompts = simulate(7, 60, 3);
  const found = fromPrompts(panelOf(prompts));
  const apart = fromPrompts(panelOf(prompts.map((prompt, p) => ({ ...prompt, cluster: `p${p}` }))));
  t.equal(found.grand.clusters, 20);
  t.equal(found.grand.n, 60);
  const clusters = Array.from({ length: 20 }, (_, c) => {
    return prompts.slice(3 * c, 3 * c + 3).map(({ rewards }) => rewards[14] ?? NaN);
  });
  near(
    t,
    found.grand.standardError,
    clusterMean(clusterSums(clusters)).standardError,
    1e-14,
    'cluster-robust',
  );
  const width = ({ interval }: Measured) => interval[1] - interval[0];
  t.ok(width(found.grand) > width(apart.grand), 'correlated prompts make a wider interval');
  const copies = simulate(7, 30).flatMap((prompt) => [prompt, prompt, prompt]);
  const once = fromPrompts(panelOf(simulate(7, 30)));
  const thrice = fromPrompts(panelOf(copies));
  near(t, thrice.shapley?.covariance, once.shapley?.covariance, 1e-15, 'copies of a prompt add nothing');
  t.ok(width(thrice.grand) >= width(once.grand), 'nor to a share');
});

t.test('a sample that never varies, or is a single cluster, claims no certainty', async (t) => {
  const ones = Array.from({ length: 20 }, (_, p) => ({ cluster: `c${p}`, rewards: MASKS4.map(() => 1) }));
  const found = fromPrompts(panelOf(ones));
  t.match(found.grand, { value: 1, standardError: 0, method: 'wilson' });
  t.ok(found.grand.interval[0] < 0.9 && found.grand.interval[1] === 1);
  t.ok(found.shapley?.estimates.every(({ interval, value }) => interval[0] < value - 0.05));
  t.equal(found.shapley?.estimates[0]?.method, 'bernstein');
  const single = fromPrompts(panelOf(ones.map((prompt) => ({ ...prompt, cluster: 'one' }))));
  t.match(single.grand, { standardError: 0.5, interval: [0, 1], method: 'range' });
  t.match(single.loo.estimates[0], { standardError: 1, interval: [-1, 1] });
  const all = JSON.stringify(
    [found, single].map(({ grand, loo, shapley }) => [grand, loo.estimates, shapley?.estimates]),
  );
  t.notMatch(all, /null/, 'every number of an estimate is finite');
});

t.test('an incomplete panel is refused with the coalitions that are missing', async (t) => {
  const prompts = simulate(1, 5);
  const less = (masks: number[]) => prompts.map(({ cluster }) => ({ cluster, rewards: masks.map(() => 1) }));
  const refused: [Panel, RegExp][] = [
    [panelOf(less([15, 14, 13, 11]), { masks: [15, 14, 13, 11] }), /11 coalitions of the design full/],
    [panelOf(less([15, 14, 13, 11]), { masks: [15, 14, 13, 11], design: 'loo' }), /"m1,m2,m3"/],
    [panelOf([]), /no prompts/],
    [panelOf([{ cluster: 'a', rewards: [1] }]), /prompt 0 has 1 rewards/],
    [panelOf([{ cluster: 'a', rewards: MASKS4.map(() => NaN) }]), /reward of "m1" on prompt 0 is NaN/],
    [panelOf([{ cluster: 'a', rewards: MASKS4.map(() => 2) }]), /is 2/],
  ];
  for (const [panel, message] of refused)
    t.throws(() => fromPrompts(panel), { code: 'game_invalid', message });
  const masks = [15, 14, 13, 11, 7];
  const loo = fromPrompts(panelOf(less(masks), { masks, design: 'loo' }));
  t.equal(loo.shapley, undefined, 'leave-one-out data have no Shapley value');
  t.equal(loo.individual, undefined);
  t.equal(loo.synergyGrand[1]?.[0], undefined);
  const pair = fromPrompts(
    panelOf(less([1, 2, 3]), { players: ['a', 'b'], masks: [1, 2, 3], design: 'loo' }),
  );
  t.same(values(pair.shapleyCentered), [0, 0], 'for two players leave-one-out runs everything');
});

t.test('intervals cover the truth in 200 seeds, clustered or not', async (t) => {
  const covers = ({ interval }: Measured, value: number | undefined) => {
    return value !== undefined && interval[0] <= value && value <= interval[1];
  };
  for (const [prompts, perCluster] of [
    [120, 1],
    [150, 3],
  ] as const) {
    const kinds = ['individual', 'loo', 'shapley', 'shapleyCentered', 'shapleyCompositional'] as const;
    const counts = new Map<string, number>([...kinds, 'grand'].map((kind) => [kind, 0]));
    const count = (kind: string, held: boolean) => counts.set(kind, (counts.get(kind) ?? 0) + (held ? 1 : 0));
    for (let seed = 0; seed < 200; seed += 1) {
      const found = fromPrompts(panelOf(simulate(seed + 1_000, prompts, perCluster)));
      count('grand', covers(found.grand, pool.values[15]));
      for (const kind of kinds) {
        found[kind]?.estimates.forEach((one, i) => count(kind, covers(one, truth[kind][i])));
      }
    }
    for (const [kind, held] of counts) {
      const share = held / (kind === 'grand' ? 200 : 800);
      t.ok(share >= 0.92 && share <= 0.999, `${kind}, clusters of ${perCluster}: ${share}`);
    }
  }
});

t.test('a status says what may be done with a number', async (t) => {
  const plain: StatusInput = { interval: [0.02, 0.06], clusters: 500 };
  const cases: [Partial<StatusInput>, string, number?][] = [
    [{}, 'POSITIVE'],
    [{ interval: [-0.06, -0.02] }, 'NEGATIVE'],
    [{ interval: [-0.009, 0.01] }, 'EQUIVALENT'],
    [{ interval: [-0.02, 0.02] }, 'UNRESOLVED', 1_500],
    [{ interval: [0, 0.02] }, 'UNRESOLVED', 1],
    [{ clusters: 49 }, 'INSUFFICIENT', 1],
    [{ clusters: 49, sweep: true }, 'POSITIVE'],
    [{ clusters: 20, sweep: true }, 'INSUFFICIENT', 10],
    [{ discordant: 9 }, 'INSUFFICIENT', 1],
    [{ smallestCell: 29 }, 'INSUFFICIENT', 1],
    [{ interval: [0.1, 0.3] }, 'INSUFFICIENT', 1_500],
    [{ interval: [NaN, NaN] }, 'INSUFFICIENT'],
    [{ ageDays: 15 }, 'STALE'],
    [{ versionChanged: true }, 'STALE'],
    [{ missing: ['a,b'], ageDays: 15 }, 'INCOMPLETE'],
    [{ confounded: true, missing: ['a,b'] }, 'CONFOUNDED'],
  ];
  for (const [input, status, promptsNeeded] of cases) {
    const found = statusOf({ ...plain, ...input });
    t.equal(found.status, status, JSON.stringify(input));
    if (promptsNeeded !== undefined) t.equal(found.promptsNeeded, promptsNeeded, 'prompts needed');
  }
  t.same(statusOf({ ...plain, missing: ['a,b'] }).missing, ['a,b']);
  t.equal(extraPrompts(100, 0.02, 0.01), 300);
});

t.test('synergy over the best member is not fooled by the best of noisy means', async (t) => {
  let [sum, rejected, found] = [0, 0, 0];
  for (let seed = 0; seed < 300; seed += 1) {
    const random = xoroshiro128plus(seed);
    const hit = (p: number) => (uniformFloat64(random) < p ? 1 : 0);
    const rows = (team: number) => {
      return Array.from({ length: 80 }, (_, p) => ({
        cluster: `c${p}`,
        team: hit(team),
        members: [0.6, 0.6, 0.6, 0.6].map(hit),
      }));
    };
    const none = synergyOverBest(rows(0.6));
    sum += none.value / 300;
    if (none.pValue <= 0.05) rejected += 1;
    if (synergyOverBest(rows(0.9)).pValue <= 0.05) found += 1;
  }
  t.ok(Math.abs(sum) < 0.015, `bias ${sum}`);
  t.ok(rejected <= 15, `false alarms ${rejected} of 300`);
  t.ok(found >= 270, `a real one is found in ${found} of 300`);
  t.throws(() => synergyOverBest([]), RangeError);
});

t.test('the verdict on translation needs both the top and the ranking', async (t) => {
  const tight = Array.from({ length: 6 }, (_, i) =>
    Array.from({ length: 6 }, (__, j) => (i === j ? 1e-6 : 0)),
  );
  const wide = tight.map((row) => row.map((value) => value * 1e4));
  const verdict = (means: number[], covariance: number[][], equivalent = false) => {
    return translation(means, covariance, equivalent, xoroshiro128plus(1), 1_000).verdict;
  };
  t.equal(verdict([0.7, 0.6, 0.5, 0.06, 0.04, 0.02], tight), 'TRANSLATES');
  t.equal(verdict([0.7, 0.6, 0.5, 0.02, 0.04, 0.06], tight), 'DOES_NOT');
  t.equal(verdict([0.7, 0.6, 0.5, 0.06, 0.04, 0.02], wide), 'UNRESOLVED');
  t.equal(verdict([0.7, 0.6, 0.5, 0.02, 0.04, 0.06], tight, true), 'UNRESOLVED', 'nothing to translate into');
});
