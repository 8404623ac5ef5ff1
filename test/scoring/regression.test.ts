/** Isotonic and logistic regression, and the nearest matrix of a lower rank. */
import fc from 'fast-check';
import t from 'tap';
import { isotonic } from '../../src/scoring/statistics/isotonic.ts';
import { logisticRidge, probabilityOf } from '../../src/scoring/statistics/logistic.ts';
import { lowRank } from '../../src/scoring/statistics/low-rank.ts';

const plain = (values: readonly number[]) => isotonic(values.map((value) => ({ value, weight: 1 })));

t.test('isotonic values pool what falls', (t) => {
  t.strictSame(plain([1, 2, 3]), [1, 2, 3]);
  t.strictSame(plain([3, 2, 1]), [2, 2, 2]);
  t.strictSame(plain([1, 3, 2, 4]), [1, 2.5, 2.5, 4]);
  t.strictSame(
    isotonic([
      { value: 1, weight: 1 },
      { value: 0, weight: 3 },
    ]),
    [0.25, 0.25],
  );
  t.strictSame(plain([]), []);
  t.end();
});

t.test('no other non-decreasing values are nearer', (t) => {
  const values = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 1, maxLength: 6 });
  const distance = (a: readonly number[], b: readonly number[]) =>
    a.reduce((sum, value, index) => sum + (value - b[index]!) ** 2, 0);
  fc.assert(
    fc.property(values, values, (given, other) => {
      const fitted = plain(given);
      const rising = fitted.every((value, index) => index === 0 || value >= fitted[index - 1]!);
      const rival = given.map((_value, index) => other[index % other.length]!).toSorted((a, b) => a - b);
      return rising && distance(given, fitted) <= distance(given, rival) + 1e-12;
    }),
  );
  t.end();
});

t.test('logistic regression agrees with another implementation', (t) => {
  const rows = [
    [0.5, -1.2],
    [1.5, 0.3],
    [-0.7, 0.8],
    [2.1, -0.4],
    [-1.3, -0.9],
    [0.2, 1.7],
    [1.1, 1.0],
    [-0.4, -0.1],
  ];
  const labels = [1, 1, 0, 1, 0, 0, 1, 0].map(Boolean);
  const { bias, weights } = logisticRidge(rows, labels, 0.5);
  // By L-BFGS of PyTorch 2 in double precision on the same loss.
  const expected = [-0.47322964370319803, 1.812531868309388, -0.6407108280692978];
  for (const [index, value] of [bias, ...weights].entries()) {
    t.ok(Math.abs(value - expected[index]!) < 1e-9, `${value} is ${expected[index]}`);
  }
  t.end();
});

t.test('logistic regression ends where labels can be told apart, and where all are the same', (t) => {
  const apart = logisticRidge([[-1], [-2], [1], [2]], [false, false, true, true], 0.1);
  t.ok(probabilityOf(apart, [1]) > 0.8 && probabilityOf(apart, [-1]) < 0.2);
  t.ok(Number.isFinite(apart.weights[0]));
  const same = logisticRidge([[1], [2], [3]], [true, true, true], 0.1);
  t.strictSame(same.weights, [0]);
  t.ok(Math.abs(probabilityOf(same, [9]) - 3.5 / 4) < 1e-12);
  t.throws(() => logisticRidge([], [], 1), RangeError);
  t.throws(() => logisticRidge([[1]], [true], 0), RangeError);
  t.end();
});

t.test('factors of full rank give the matrix again, and of rank 1 the nearest of rank 1', (t) => {
  const rows = [
    [3, 0, 1],
    [1, 2, 0],
  ];
  const product = ({ left, right }: ReturnType<typeof lowRank>) =>
    left.map((row) => right[0]!.map((_v, at) => row.reduce((sum, v, k) => sum + v * right[k]![at]!, 0)));
  const near = (a: readonly (readonly number[])[]) =>
    a.map((row) => row.map((v) => Number(v.toFixed(9)) + 0));
  t.strictSame(near(product(lowRank(rows, 9))), rows);
  const one = lowRank(rows, 1);
  t.equal(one.right.length, 1);
  const error = product(one)
    .flat()
    .reduce((sum, v, at) => sum + (v - rows.flat()[at]!) ** 2, 0);
  // What is left is the square of the second singular value: the smaller root of x² − 15x + 41.
  t.ok(Math.abs(error - (15 - Math.sqrt(15 ** 2 - 4 * 41)) / 2) < 1e-9, `${error}`);
  t.end();
});
