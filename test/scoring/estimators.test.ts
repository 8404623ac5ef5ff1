import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { uniformFloat64 } from 'pure-rand/distribution/uniformFloat64';
import { xoroshiro128plus } from 'pure-rand/generator/xoroshiro128plus';
import t from 'tap';
import { near } from './near.ts';
import { ConsortError } from '../../src/contract/errors.ts';
import { independentCellErrors, neymanShares } from '../../src/scoring/estimators/allocation.ts';
import { coalitionSize, grandMask } from '../../src/scoring/estimators/coalition.ts';
import {
  centred,
  coefficientVector,
  loo,
  semivalue,
  shapley,
  sumOfSquares,
} from '../../src/scoring/estimators/coefficients.ts';
import { duelProbability, duelRow, duelSizeLaw } from '../../src/scoring/estimators/duel.ts';
import { gameOf, parseGame, type Game } from '../../src/scoring/estimators/game.ts';
import { allIndices, playerIndex } from '../../src/scoring/estimators/indices.ts';
import { kernelGram, kernelShap } from '../../src/scoring/estimators/kernel-shap.ts';

const read = (name: string) => {
  return JSON.parse(readFileSync(new URL(`../fixtures/vectors/${name}.json`, import.meta.url), 'utf8'));
};
const { games, meta } = read('shapley');
const statistics = read('statistics');
const fraction = (text: string) =>
  text
    .split('/')
    .map(Number)
    .reduce((a, b) => a / b);

/** A game of `n` players with values in [-1, 1]. */
const tables = (n: number) =>
  fc.array(fc.double({ min: -1, max: 1, noNaN: true }), { minLength: 2 ** n, maxLength: 2 ** n });
const anyGame = fc.integer({ min: 1, max: 5 }).chain((n) => tables(n).map((values) => toGame(values)));
function toGame(values: readonly number[]): Game {
  const n = Math.log2(values.length);
  return gameOf(
    Array.from({ length: n }, (_, i) => `p${i}`),
    Float64Array.from(values),
  );
}
const close = (a: readonly number[], b: readonly number[]) => {
  return a.length === b.length && a.every((value, i) => Math.abs(value - (b[i] ?? NaN)) < 1e-9);
};

t.test('every index of every reference game', async (t) => {
  for (const document of games) {
    const found = Object.entries(allIndices(parseGame(document)));
    t.same(found.map(([key]) => key).toSorted(), Object.keys(document.expected).toSorted(), document.name);
    for (const [key, value] of found)
      near(t, value, document.expected[key], 1e-12, `${document.name} ${key}`);
  }
});

t.test('the United Nations Security Council, 15 players, has its known values', async (t) => {
  const values = Float64Array.from({ length: 2 ** 15 }, (_, mask) => {
    return (mask & 31) === 31 && coalitionSize(mask) >= 9 ? 1 : 0;
  });
  const found = allIndices(
    gameOf(
      Array.from({ length: 15 }, (_, i) => `p${i}`),
      values,
    ),
  );
  const { shapleyVeto, shapleyNonVeto, banzhafVeto, banzhafNonVeto } = meta.closedFormOnly;
  near(
    t,
    [found.shapley[0], found.shapley[14]],
    [shapleyVeto, shapleyNonVeto].map(fraction),
    1e-13,
    'Shapley',
  );
  near(
    t,
    [found.banzhaf[0], found.banzhaf[14]],
    [banzhafVeto, banzhafNonVeto].map(fraction),
    1e-13,
    'Banzhaf',
  );
});

t.test('a game document is read in any order, or refused with what is wrong', async (t) => {
  const game = parseGame({ players: ['b', 'a'], v: { '': 0, 'a, b': 3, b: 1, a: 2 } });
  t.same([...game.values], [0, 1, 2, 3]);
  const v = { '': 0, a: 1, b: 1, 'a,b': 2 };
  const wrong: [unknown, RegExp][] = [
    [{ players: ['a', 'b'], v: { '': 0, a: 1 } }, /2 of 4 coalitions: "b", "a,b"/],
    [{ players: ['a', 'b'], v: { a: 1, b: 1, 'a,b': 2 } }, /1 of 4 coalitions: ""/],
    [{ players: ['a', 'b'], v: { ...v, c: 1 } }, /"c" in the coalition "c" is not a player/],
    [{ players: ['a', 'b'], v: { ...v, 'b,a': 2 } }, /"a,b" is given twice/],
    [{ players: ['a', 'b'], v: { ...v, 'a,a': 2 } }, /"a" occurs twice/],
    [{ players: ['a', 'a'], v }, /listed twice/],
    [{ players: ['a', 'b'], v: { ...v, a: Infinity } }, /a/],
    [{ players: ['a', 'b'], v: { ...v, a: '1' } }, /v/],
    [{ players: [], v: {} }, /players/],
    [{ players: Array.from({ length: 21 }, (_, i) => `p${i}`), v: {} }, /21 players, at most 20/],
    [{ v }, /players/],
    [null, /usable/],
  ];
  for (const [document, message] of wrong) {
    t.throws(() => parseGame(document), { code: 'game_invalid', message }, JSON.stringify(document));
  }
  t.throws(
    () => allIndices({ players: ['a'], values: Float64Array.of(0, NaN) }),
    ConsortError,
    'checked again',
  );
});

t.test('axioms', async (t) => {
  const shapleyOf = (game: Game) => playerIndex(game, shapley(game.players.length));
  const map = (game: Game, value: (mask: number) => number) =>
    toGame([...game.values].map((_, mask) => value(mask)));
  const at = (game: Game, mask: number) => game.values[mask] ?? NaN;
  const full = (game: Game) => game.values.length - 1;
  fc.assert(
    fc.property(anyGame, (game) => {
      const total = shapleyOf(game).reduce((sum, value) => sum + value, 0);
      t.ok(Math.abs(total - (at(game, full(game)) - at(game, 0))) < 1e-9, 'efficiency');
      const dual = map(game, (mask) => at(game, full(game)) - at(game, full(game) & ~mask));
      t.ok(close(shapleyOf(dual), shapleyOf(game)), 'the dual game has the same Shapley values');
      t.ok(close(allIndices(dual).loo, allIndices(game).individualMarginal), 'and swaps its two ends');
      const shifted = allIndices(map(game, (mask) => at(game, mask) + (mask === 0 ? 0.5 : 0)));
      const plain = allIndices(game);
      const n = game.players.length;
      t.ok(
        close(
          shifted.shapley,
          plain.shapley.map((x) => x - 0.5 / n),
        ),
        'v(empty) moves all alike',
      );
      t.ok(close(shifted.shapleyCentered, plain.shapleyCentered), 'and the centred values not at all');
      if (n > 1) t.ok(close(shifted.loo, plain.loo), 'nor leave-one-out');
      t.ok(
        close(
          shifted.banzhaf,
          plain.banzhaf.map((x) => x - 0.5 / 2 ** (n - 1)),
        ),
        'Banzhaf by its own law',
      );
    }),
    { numRuns: 40 },
  );
  fc.assert(
    fc.property(tables(3), tables(3), fc.double({ min: -3, max: 3, noNaN: true }), (a, b, factor) => {
      const [first, second] = [shapleyOf(toGame(a)), shapleyOf(toGame(b))];
      const mixed = shapleyOf(toGame(a.map((value, mask) => value + factor * (b[mask] ?? NaN))));
      t.ok(
        close(
          mixed,
          first.map((value, i) => value + factor * (second[i] ?? NaN)),
        ),
        'linearity',
      );
      const swap = (mask: number) => (mask & 4) | ((mask & 1) << 1) | ((mask & 2) >> 1);
      const relabelled = shapleyOf(toGame(a.map((_, mask) => a[swap(mask)] ?? NaN)));
      t.ok(close(relabelled, [first[1] ?? NaN, first[0] ?? NaN, first[2] ?? NaN]), 'relabelling');
      const withNull = toGame([...a, ...a]);
      t.ok(close(shapleyOf(withNull), [...first, 0]), 'a null player gets nothing, and changes nothing');
      const symmetric = toGame(a.map((value, mask) => value + (a[swap(mask)] ?? NaN)));
      const [x = NaN, y = NaN] = allIndices(symmetric).banzhaf;
      t.ok(Math.abs(x - y) < 1e-9, 'symmetric players get the same');
    }),
    { numRuns: 40 },
  );
});

t.test('coefficient vectors reproduce the indices and have their known lengths', async (t) => {
  for (const document of games.slice(0, 8)) {
    const { players, values } = parseGame(document);
    const n = players.length;
    const found = players.map((_, i) => {
      return coefficientVector(n, shapley(n), i).reduce((sum, a, mask) => sum + a * (values[mask] ?? NaN), 0);
    });
    near(t, found, document.expected.shapley, 1e-12, document.name);
  }
  for (const [n, exact] of Object.entries(
    statistics.sumSquaredShapleyCoefficients as Record<string, string>,
  )) {
    near(t, sumOfSquares(Number(n), shapley(Number(n))), fraction(exact), 1e-14, `n = ${n}`);
    t.equal(sumOfSquares(Number(n), loo(Number(n))), 2);
  }
  t.throws(() => semivalue(3, [1, 1, 1]), RangeError, 'weights must sum to one');
  t.throws(() => shapley(0), RangeError);
});

t.test('the least-squares form gives the same values, and its kernel the known Gram matrix', async (t) => {
  for (const document of games.filter(({ n }: { n: number }) => n > 1 && n <= 6)) {
    const { players, values } = parseGame(document);
    const found = kernelShap(players.length, new Map([...values].map((value, mask) => [mask, value])));
    near(t, found, document.expected.shapley, 1e-10, document.name);
  }
  for (const [n, exact] of Object.entries(statistics.kernelShapAij as Record<string, string>)) {
    near(t, kernelGram(Number(n)), fraction(exact), 1e-15, `n = ${n}`);
  }
  t.throws(() => kernelShap(2, new Map([[0, 0]])), RangeError);
});

t.test('independent cells and Neyman shares match their vectors', async (t) => {
  const document = games.find(({ name }: { name: string }) => name === 'llm-pool-4');
  const { values } = parseGame(document);
  const variances = values.map((v, mask) => (mask === 0 ? 0 : v * (1 - v)));
  const { mPerCell, se, seLoo } = statistics.independentCellVariance;
  near(t, independentCellErrors(4, shapley(4), variances, mPerCell), se, 1e-14, 'Shapley');
  near(t, independentCellErrors(4, loo(4), variances, mPerCell), seLoo, 1e-14, 'leave-one-out');
  const shares = neymanShares(4, shapley(4), variances);
  const { share } = statistics.neyman as { share: Record<string, number> };
  for (const [mask, wanted] of Object.entries(share))
    near(t, shares[Number(mask)], wanted, 1e-12, `share ${mask}`);
});

t.test('a duel has the centred Shapley value as its expectation in every game', async (t) => {
  for (const document of games.filter(({ n }: { n: number }) => n >= 2 && n <= 10)) {
    const { players, values } = parseGame(document);
    const n = players.length;
    const expectation = new Float64Array(n);
    let total = 0;
    for (let mask = 1; mask < grandMask(n); mask += 1) {
      const probability = duelProbability(n, mask);
      total += probability;
      const row = duelRow(n, mask, values[mask] ?? NaN, values[grandMask(n) & ~mask] ?? NaN);
      row.forEach((value, i) => (expectation[i] = (expectation[i] ?? NaN) + probability * value));
    }
    near(t, total, 1, 1e-12, 'probabilities');
    near(t, [...expectation], document.expected.shapleyCentered, 1e-12, document.name);
  }
  near(t, duelSizeLaw(4), [0, 4 / 11, 3 / 11, 4 / 11], 1e-15, 'size law');
  t.throws(() => duelRow(3, 0, 1, 0), RangeError);
  t.throws(() => duelRow(3, 7, 1, 0), RangeError);
});

t.test('duels cover the centred Shapley value over seeds, with two coalitions a prompt', async (t) => {
  const document = games.find(({ name }: { name: string }) => name === 'llm-pool-4');
  const { values } = parseGame(document);
  const truth = playerIndex(parseGame(document), centred(4, shapley(4)));
  const [seeds, prompts] = [200, 400];
  let [covered, bias, runs] = [0, 0, 0];
  for (let seed = 0; seed < seeds; seed += 1) {
    const random = xoroshiro128plus(seed);
    const draw = () => uniformFloat64(random);
    let [sum, squares] = [0, 0];
    for (let p = 0; p < prompts; p += 1) {
      let mask = 1;
      for (let u = draw() - duelProbability(4, 1); u > 0 && mask < 14; u -= duelProbability(4, mask))
        mask += 1;
      const reward = (of: number) => (draw() < (values[of] ?? NaN) ? 1 : 0);
      const value = duelRow(4, mask, reward(mask), reward(15 & ~mask))[0] ?? NaN;
      runs += 2;
      sum += value;
      squares += value * value;
    }
    const mean = sum / prompts;
    const error = Math.sqrt((squares / prompts - mean * mean) / (prompts - 1));
    bias += (mean - (truth[0] ?? NaN)) / seeds;
    if (Math.abs(mean - (truth[0] ?? NaN)) < 1.966 * error) covered += 1;
  }
  t.equal(runs, 2 * prompts * seeds);
  t.ok(Math.abs(bias) < 0.008, `bias ${bias}`);
  t.ok(covered >= 180 && covered <= 199, `covered in ${covered} of ${seeds}`);
});
