import { uniformFloat64 } from 'pure-rand/distribution/uniformFloat64';
import { xoroshiro128plus } from 'pure-rand/generator/xoroshiro128plus';
import t from 'tap';
import { betaBinomialInterval } from '../../src/scoring/statistics/beta-binomial.ts';
import { eMcNemar } from '../../src/scoring/statistics/e-mcnemar.ts';
import { standardNormal } from '../../src/scoring/statistics/normal-draws.ts';
import { rankIntervals } from '../../src/scoring/statistics/rank-intervals.ts';
import { wilsonInterval } from '../../src/scoring/statistics/wilson.ts';

t.test('rank intervals cover the true ranks and use the covariance', async (t) => {
  const identity = [0, 1, 2].map((i) => [0, 1, 2].map((j) => (i === j ? 0.01 : 0)));
  const apart = rankIntervals([0.9, 0.1, 0.6], identity, 0.05, xoroshiro128plus(1), 2_000);
  t.same(
    apart.ranks,
    [
      [1, 2],
      [3, 3],
      [1, 2],
    ],
    'a difference of 2.1 standard errors is a tie among three, one of 3.5 is not',
  );
  const paired = identity.map((row, i) => row.map((_, j) => (i === j ? 0.01 : 0.0099)));
  const sharp = rankIntervals([0.9, 0.1, 0.6], paired, 0.05, xoroshiro128plus(1), 2_000);
  t.same(
    sharp.ranks,
    [
      [1, 1],
      [3, 3],
      [2, 2],
    ],
    'shared noise cancels in differences',
  );
  t.same(sharp.best, [1, 0, 0]);
  const blind = rankIntervals(
    [1, 2],
    [
      [NaN, NaN],
      [NaN, NaN],
    ],
    0.05,
    xoroshiro128plus(1),
    10,
  );
  t.same(
    blind.ranks,
    [
      [1, 2],
      [1, 2],
    ],
    'no known error, no ranks',
  );
  const truth = [0.3, 0.25, 0.2];
  let held = 0;
  for (let seed = 0; seed < 200; seed += 1) {
    const random = xoroshiro128plus(seed);
    const estimates = truth.map((value) => value + 0.05 * standardNormal(random));
    const noise = identity.map((row) => row.map((value) => value / 4));
    const { ranks } = rankIntervals(estimates, noise, 0.1, random, 300);
    if (ranks.every(([best, worst], i) => best <= i + 1 && worst >= i + 1)) held += 1;
  }
  t.ok(held >= 175, `all ranks held in ${held} of 200 seeds`);
});

t.test('intervals keep their level over seeds', async (t) => {
  const [seeds, trials, rate] = [400, 60, 0.3];
  let [wilson, sequence, alarms] = [0, 0, 0];
  for (let seed = 0; seed < seeds; seed += 1) {
    const random = xoroshiro128plus(seed + 7);
    const hit = (p: number) => uniformFloat64(random) < p;
    let successes = 0;
    for (let i = 0; i < trials; i += 1) successes += hit(rate) ? 1 : 0;
    const [low, high] = wilsonInterval(successes, trials, 0.05);
    if (low <= rate && rate <= high) wilson += 1;
    let [k, inside, n10, n01, alarm] = [0, true, 0, 0, false];
    for (let n = 1; n <= 300; n += 1) {
      k += hit(rate) ? 1 : 0;
      const [a, b] = n % 10 === 0 ? betaBinomialInterval(k, n, 0.05) : [0, 1];
      if (a > rate || b < rate) inside = false;
      const differs = hit(0.3);
      if (differs && hit(0.5)) n10 += 1;
      else if (differs) n01 += 1;
      if (n % 10 === 0 && eMcNemar(n10, n01).twoSided >= Math.log(20)) alarm = true;
    }
    if (inside) sequence += 1;
    if (alarm) alarms += 1;
  }
  t.ok(wilson >= 0.92 * seeds, `Wilson covers in ${wilson} of ${seeds}`);
  t.ok(sequence >= 0.95 * seeds, `beta-binomial always covers in ${sequence} of ${seeds}`);
  t.ok(alarms <= 0.05 * seeds, `e-McNemar false alarms under peeking: ${alarms} of ${seeds}`);
});
