import t from 'tap';
import { evaluateSim } from '../support/evaluate-sim.ts';
import { deviations, type Deviation } from '../support/sim-truth.ts';

/** Fewer prompts and seeds than `npm run check:truth`, which publishes its result. */
const CASES = [
  { system: 'vote', seeds: 20, prompts: 120 },
  { system: 'debate', seeds: 6, prompts: 60 },
];

for (const { system, seeds, prompts } of CASES) {
  t.test(`${system} agrees with the exact values of the simulated pool over ${seeds} seeds`, async (t) => {
    const all: Deviation[] = [];
    for (let seed = 1; seed <= seeds; seed++) {
      all.push(...deviations(system, await evaluateSim(system, prompts, seed)));
    }
    t.equal(all.length, seeds * 41, 'every coalition, leave-one-out and Shapley value is compared');
    const outside = all.filter(({ z }) => Math.abs(z) > 2.576);
    t.ok(
      outside.length <= 0.03 * all.length,
      `${outside.length} of ${all.length} outside their 99 % interval`,
    );
    const worst = all.reduce((a, b) => (Math.abs(a.z) > Math.abs(b.z) ? a : b));
    t.ok(Math.abs(worst.z) < 4.5, `the worst is ${worst.name}, ${worst.z.toFixed(2)} standard errors away`);
    const mean = all.reduce((sum, { z }) => sum + z, 0) / all.length;
    t.ok(Math.abs(mean) < 0.6, `no common bias: mean deviation ${mean.toFixed(2)} standard errors`);
  });
}

t.test('standard errors shrink with the square root of the prompts', async (t) => {
  const few = deviations('vote', await evaluateSim('vote', 60, 101));
  const many = deviations('vote', await evaluateSim('vote', 540, 102));
  const ratios = few.map(({ standardError }, index) => standardError / many[index]!.standardError);
  const median = ratios.toSorted((a, b) => a - b)[Math.floor(ratios.length / 2)]!;
  t.ok(Math.abs(median - 3) < 0.4, `nine times the prompts, errors smaller by ${median.toFixed(2)}`);
});
