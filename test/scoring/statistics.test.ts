import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import t from 'tap';
import { near } from './near.ts';
import { sequenceRadius, sequenceTuning } from '../../src/scoring/statistics/asymptotic-sequence.ts';
import { augmentedScores } from '../../src/scoring/statistics/augmented-weighting.ts';
import { betaBinomialInterval } from '../../src/scoring/statistics/beta-binomial.ts';
import { bonettPriceInterval } from '../../src/scoring/statistics/bonett-price.ts';
import { clusterMean, clusterSums } from '../../src/scoring/statistics/cluster-sums.ts';
import { clusteredMeans } from '../../src/scoring/statistics/clustered-means.ts';
import { eMcNemar } from '../../src/scoring/statistics/e-mcnemar.ts';
import {
  addBernstein,
  bernsteinLook,
  startBernstein,
} from '../../src/scoring/statistics/empirical-bernstein.ts';
import { forgettingMean } from '../../src/scoring/statistics/forgetting.ts';
import {
  covarianceOfSums,
  meanOfSums,
  ratio,
  varianceOfSums,
} from '../../src/scoring/statistics/integer-sums.ts';
import { mcnemarTest } from '../../src/scoring/statistics/mcnemar.ts';
import { mergeMoments, momentsOf, removeValue, variance } from '../../src/scoring/statistics/moments.ts';
import { benjaminiHochberg, eBenjaminiHochberg, holm } from '../../src/scoring/statistics/multiplicity.ts';
import {
  exactPermutationTest,
  kendallTauB,
  spearman,
} from '../../src/scoring/statistics/rank-correlation.ts';
import {
  detectableDifference,
  discordantSampleSize,
  pairedSampleSize,
} from '../../src/scoring/statistics/sample-size.ts';
import {
  betaCdf,
  betaQuantile,
  normalCdf,
  normalQuantile,
  studentCdf,
  studentQuantile,
} from '../../src/scoring/statistics/special-functions.ts';
import { wilsonInterval } from '../../src/scoring/statistics/wilson.ts';

const vectors = JSON.parse(
  readFileSync(new URL('../fixtures/vectors/statistics.json', import.meta.url), 'utf8'),
);

t.test(
  'quantiles and distribution functions are inverse to each other and known where tabulated',
  async (t) => {
    near(t, normalQuantile(0.975), 1.959963984540054, 1e-14, 'normal');
    near(t, studentQuantile(0.975, 5), 2.5705818366147395, 1e-9, 'student');
    near(t, betaQuantile(0.5, 3, 3), 0.5, 1e-12, 'beta');
    for (const p of [0.001, 0.2, 0.5, 0.9, 0.999]) {
      near(t, normalCdf(normalQuantile(p)), p, 1e-12, `normal ${p}`);
      near(t, studentCdf(studentQuantile(p, 7), 7), p, 1e-9, `student ${p}`);
      near(t, betaCdf(betaQuantile(p, 2, 5), 2, 5), p, 1e-9, `beta ${p}`);
    }
    for (const wrong of [0, 1, -1, NaN]) t.throws(() => normalQuantile(wrong), RangeError);
    t.throws(() => studentQuantile(0.9, 0), RangeError);
    t.throws(() => studentQuantile(0.9, 2.5), RangeError);
  },
);

t.test('moments merge, and give back a value', async (t) => {
  const { a, b, aMoments, bMoments, merged, removeLastOfB } = vectors.chanMerge;
  const flat = ({ n, mean, m2 }: ReturnType<typeof momentsOf>) => [n, mean, m2];
  near(t, flat(momentsOf(a)), aMoments, 1e-14, 'a');
  near(t, flat(momentsOf(b)), bMoments, 1e-14, 'b');
  const both = mergeMoments(momentsOf(a), momentsOf(b));
  near(t, flat(both), merged, 1e-14, 'merged');
  near(t, flat(removeValue(both, b.at(-1))), removeLastOfB, 1e-14, 'removed');
  t.ok(Number.isNaN(variance(momentsOf([1]))), 'one value has no variance');
  fc.assert(
    fc.property(fc.array(fc.integer({ min: -50, max: 50 }), { maxLength: 20 }), fc.nat(20), (values, cut) => {
      const [left, right] = [values.slice(0, cut), values.slice(cut)];
      const [whole, parts] = [momentsOf(values), mergeMoments(momentsOf(left), momentsOf(right))];
      return (
        whole.n === parts.n &&
        Math.abs(whole.mean - parts.mean) < 1e-9 &&
        Math.abs(whole.m2 - parts.m2) < 1e-7
      );
    }),
  );
});

t.test('integer sums give exact means and variances at any size', async (t) => {
  const { scale, n, sum, sumsq, mean, varUnbiased } = vectors.integerSums;
  const sums = { n: BigInt(n), sum: BigInt(sum), sumSquares: BigInt(sumsq) };
  t.equal(meanOfSums(sums, scale), mean);
  near(t, varianceOfSums(sums, scale), varUnbiased, 1e-16, 'variance');
  const many = 10n ** 18n;
  const binary = { n: 2n * many, sum: many * 10_000n, sumSquares: many * 100_000_000n };
  near(t, varianceOfSums(binary, 10_000), 0.25, 1e-15, 'no cancellation far beyond 2^53');
  near(t, covarianceOfSums(4n, 10n, 10n, 30n, 1), 5 / 3, 1e-15, 'covariance of 1,2,3,4 with itself');
  t.ok(Number.isNaN(ratio(1n, 0n)), 'no rows, no number');
  fc.assert(
    fc.property(fc.bigInt(-(2n ** 300n), 2n ** 300n), fc.bigInt(1n, 2n ** 300n), (p, q) => {
      const [whole, rest] = [p / q, p % q];
      const expected = Number(whole) + Number((rest * 2n ** 60n) / q) / 2 ** 60;
      const found = ratio(p, q);
      return Math.abs(found - expected) <= 1e-15 * Math.abs(expected) + 2 ** -59;
    }),
  );
});

t.test('intervals for shares and paired differences match their vectors', async (t) => {
  for (const { k, n, alpha, ci } of vectors.wilson)
    near(t, wilsonInterval(k, n, alpha), ci, 1e-12, `wilson ${k}/${n}`);
  for (const { n10, n01, n, alpha, ci } of vectors.bonettPrice) {
    near(t, bonettPriceInterval(n10, n01, n, alpha), ci, 1e-12, `bonett-price ${n10},${n01}/${n}`);
  }
  t.equal(wilsonInterval(20, 20, 0.05)[1], 1, 'the bound of a perfect record is one');
  t.throws(() => wilsonInterval(3, 2, 0.05), RangeError);
  t.throws(() => wilsonInterval(0, 0, 0.05), RangeError);
  t.throws(() => bonettPriceInterval(3, 3, 5, 0.05), RangeError);
});

t.test('tests of paired outcomes match their vectors', async (t) => {
  for (const { n10, n01, pExactTwoSided, pMidTwoSided } of vectors.mcnemar) {
    const { exact, midP } = mcnemarTest(n10, n01);
    near(t, [exact, midP], [pExactTwoSided, pMidTwoSided], 1e-12, `mcnemar ${n10},${n01}`);
  }
  for (const { n10, n01, priorA, logE_twoSided, logE_greater } of vectors.eMcNemar) {
    const { twoSided, greater } = eMcNemar(n10, n01, priorA);
    near(t, [twoSided, greater], [logE_twoSided, logE_greater], 1e-11, `e-mcnemar ${n10},${n01}`);
  }
});

t.test('confidence sequences match their vectors', async (t) => {
  for (const { t: count, var: v, tStar, alpha, rho2, radius } of vectors.asympCS) {
    near(t, sequenceTuning(tStar, alpha), rho2, 1e-15, 'tuning');
    near(t, sequenceRadius(count, v, alpha, tStar), radius, 1e-13, `radius at ${count}`);
  }
  for (const { k, n, alpha, ci } of vectors.betaBinomialCS) {
    near(t, betaBinomialInterval(k, n, alpha), ci, 1e-11, `beta-binomial ${k}/${n}`);
  }
  const { alpha, at } = vectors.empiricalBernsteinCS;
  let state = startBernstein(alpha);
  for (let index = 0; index < 200; index += 1) {
    state = addBernstein(state, [0.5, 1, 0.5, 0.5, 0, 1, 1, 0.5, 0.5, 1][index % 10] ?? NaN);
    const look = at[String(index + 1)];
    if (look === undefined) continue;
    const { center, radius } = bernsteinLook(state);
    near(t, [center, radius], [look.center, look.radius], 1e-12, `empirical Bernstein at ${index + 1}`);
  }
  t.ok(state.interval[0] > 0.5 && state.interval[1] < 0.8, 'looks are intersected');
  t.throws(() => addBernstein(state, 1.1), RangeError);
});

t.test('cluster-robust errors: the six sums and the joint form agree with the vector', async (t) => {
  const { clusters, sums, mean, se, df, ci } = vectors.clusterRobust;
  const found = clusterSums(clusters);
  t.same(Object.values(found), [sums.C, sums.m, sums.T, sums.m2, sums.Tm, sums.T2]);
  const result = clusterMean(found);
  near(t, [result.mean, result.standardError, result.df], [mean, se, df], 1e-14, 'six sums');
  const radius = studentQuantile(0.975, df) * se;
  near(t, [mean - radius, mean + radius], ci, 1e-9, 't interval');
  const rows = clusters.flatMap((values: number[]) => values.map((value) => [value, -2 * value]));
  const names = clusters.flatMap((values: number[], c: number) => values.map(() => `c${c}`));
  const joint = clusteredMeans(rows, names);
  near(t, joint.means, [mean, -2 * mean], 1e-14, 'joint means');
  near(
    t,
    joint.covariance,
    [
      [se ** 2, -2 * se ** 2],
      [-2 * se ** 2, 4 * se ** 2],
    ],
    1e-14,
    'joint covariance',
  );
  t.ok(Number.isNaN(clusteredMeans([[1], [2]], ['a', 'a']).covariance[0]?.[0]), 'one cluster has no error');
  t.throws(() => clusteredMeans([], []), RangeError);
});

t.test('adjustments for many hypotheses match their vectors', async (t) => {
  const { p, holm: wantedHolm, bh, e, eBHalpha, eBHrejected } = vectors.multiplicity;
  near(t, holm(p), wantedHolm, 1e-15, 'holm');
  near(t, benjaminiHochberg(p), bh, 1e-15, 'benjamini-hochberg');
  t.same(eBenjaminiHochberg(e, eBHalpha), eBHrejected);
  t.same(eBenjaminiHochberg([1, 1], 0.1), [], 'nothing to reject');
});

t.test('rank correlations and their exact p-values match their vectors', async (t) => {
  for (const row of vectors.rankCorrelation) {
    const { x, y } = row;
    near(t, spearman(x, y), row.spearman, 1e-14, 'spearman');
    near(t, kendallTauB(x, y), row.kendallTauB, 1e-14, 'kendall');
    const [s, k] = [exactPermutationTest(spearman, x, y), exactPermutationTest(kendallTauB, x, y)];
    near(t, [s.greater, s.twoSided], [row.spearmanP_greater, row.spearmanP_twoSided], 1e-14, 'spearman p');
    near(t, [k.greater, k.twoSided], [row.kendallP_greater, row.kendallP_twoSided], 1e-14, 'kendall p');
  }
  t.ok(Number.isNaN(spearman([1, 1, 1], [1, 2, 3])), 'a constant has no correlation');
  const nine = [1, 2, 3, 4, 5, 6, 7, 8, 9];
  t.throws(() => exactPermutationTest(spearman, nine, nine), RangeError);
});

t.test('sample sizes match their vectors, and the detectable difference is the inverse', async (t) => {
  for (const { delta, rho, p, alpha, power, n } of vectors.sampleSize) {
    t.equal(pairedSampleSize(delta, p, rho, { alpha, power }), n);
    t.ok(detectableDifference(n, p, rho, { alpha, power }) <= delta);
    t.ok(detectableDifference(n - 1, p, rho, { alpha, power }) > delta);
  }
  for (const { discordance, delta, alpha, power, n } of vectors.sampleSizeMcNemar) {
    t.equal(discordantSampleSize(delta, discordance, { alpha, power }), n);
  }
});

t.test('forgetting and augmented weighting match their vectors', async (t) => {
  const { data, gamma, mean, var: v, nEff } = vectors.bucketForgetting;
  const buckets = data.map(([n, sum, sumSquares]: number[]) => ({ n, sum, sumSquares }));
  const found = forgettingMean(buckets, gamma);
  near(t, [found.mean, found.variance, found.effective], [mean, v, nEff], 1e-12, 'forgetting');
  const rows = vectors.aipw.data.map(([propensity, seen, u, prediction]: number[]) => ({
    propensity,
    reward: seen === 1 ? u : null,
    prediction,
  }));
  near(t, augmentedScores(rows), vectors.aipw.psi, 1e-15, 'augmented scores');
  t.throws(() => augmentedScores([{ propensity: 0, reward: 1, prediction: 0 }]), RangeError);
});
