import fc from 'fast-check';
import t from 'tap';
import type { AdvantageKind } from '../../src/contract/trajectory.ts';
import { advantagesOf } from '../../src/policy/advantages.ts';

const KINDS: readonly AdvantageKind[] = ['centred', 'rloo', 'std'];

const isClose = (a: number | null | undefined, b: number, by = 1e-12) =>
  typeof a === 'number' && Math.abs(a - b) <= by;

/** Rewards of verifiers: exact fractions, null for an invalid rollout. */
const reward = fc.integer({ min: 0, max: 8 }).map((eighths) => eighths / 8);
const rewards = fc.array(
  fc.oneof({ weight: 6, arbitrary: reward }, { weight: 1, arbitrary: fc.constant(null) }),
  {
    minLength: 2,
    maxLength: 16,
  },
);

void t.test('a group of two right and two wrong has the advantages of the books', async (t) => {
  for (const [kind, size] of [
    ['centred', 0.5],
    // The unbiased deviation: with the population's it would be 1.
    ['std', 0.866],
    ['rloo', 0.6667],
  ] as const) {
    const { advantages, mean, std, valid, degenerate } = advantagesOf([1, 0, 0, 1], kind);
    t.ok(
      [size, -size, -size, size].every((right, index) => isClose(advantages[index], right, 1e-4)),
      `${kind}: ${advantages.join(' ')}`,
    );
    t.match({ mean, valid, degenerate }, { mean: 0.5, valid: 4, degenerate: false });
    t.ok(isClose(std, Math.sqrt(1 / 3)));
  }
});

void t.test('an invalid rollout has no advantage and no part in the mean', async (t) => {
  t.same(advantagesOf([1, null, 0, null], 'centred').advantages, [0.5, null, -0.5, null]);
  t.same(advantagesOf([1, null, 0, null], 'rloo').advantages, [1, null, -1, null]);
  t.equal(advantagesOf([1, null, 0, null], 'std').valid, 2);
});

void t.test('rloo is the reward less the mean of the others', async (t) => {
  fc.assert(
    fc.property(rewards, (values) => {
      const valid = values.filter((value) => value !== null);
      fc.pre(valid.length >= 2);
      const { advantages } = advantagesOf(values, 'rloo');
      const sum = valid.reduce((a, b) => a + b, 0);
      return values.every((value, index) =>
        value === null
          ? advantages[index] === null
          : isClose(advantages[index], value - (sum - value) / (valid.length - 1)),
      );
    }),
  );
  t.pass();
});

void t.test('one number off all rewards of a group changes no advantage', async (t) => {
  const baseline = fc.double({ min: -1, max: 1, noNaN: true });
  for (const kind of KINDS) {
    fc.assert(
      fc.property(rewards, baseline, (values, c) => {
        const plain = advantagesOf(values, kind);
        // The policy's marginal contribution: what the team achieves with it less what it achieves without.
        const marginal = advantagesOf(
          values.map((value) => (value === null ? null : value - c)),
          kind,
        );
        return (
          plain.degenerate === marginal.degenerate &&
          values.every((_, index) => {
            const before = plain.advantages[index];
            const after = marginal.advantages[index];
            return before === null ? after === null : isClose(after, before!);
          })
        );
      }),
      { numRuns: 1000 },
    );
  }
  t.pass();
});

void t.test('a number for each rollout does not cancel', async (t) => {
  const { advantages } = advantagesOf([1 - 0.5, 0 - 0.25, 0 - 0.5, 1 - 0.25], 'centred');
  t.notOk(isClose(advantages[0], 0.5, 0.1));
});

void t.test('advantages sum to zero', async (t) => {
  for (const kind of KINDS) {
    fc.assert(
      fc.property(rewards, (values) => {
        const { advantages } = advantagesOf(values, kind);
        return isClose(
          advantages.reduce<number>((sum, advantage) => sum + (advantage ?? 0), 0),
          0,
        );
      }),
    );
  }
  t.pass();
});

void t.test('a group without differences teaches nothing, and exactly nothing', async (t) => {
  for (const kind of KINDS) {
    for (const values of [[0.1, 0.1, 0.1], [1 / 3, 1 / 3, null, 1 / 3], [1], [null, 1], [null, null], []]) {
      const { advantages, degenerate } = advantagesOf(values, kind);
      t.ok(degenerate, `${kind} ${JSON.stringify(values)}`);
      t.ok(
        advantages.every((advantage, index) =>
          values[index] === null ? advantage === null : advantage === 0,
        ),
      );
    }
  }
  t.same(advantagesOf([null], 'std'), { advantages: [null], mean: 0, std: 0, valid: 0, degenerate: true });
  t.notOk(advantagesOf([0, 1e-9], 'centred').degenerate);
});

void t.test('a reward that is no number is refused', async (t) => {
  t.throws(() => advantagesOf([1, NaN], 'centred'), { message: 'a reward is NaN' });
  t.throws(() => advantagesOf([1, Infinity], 'rloo'), RangeError);
});
