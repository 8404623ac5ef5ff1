import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import t, { type Test } from 'tap';
import { exactMatch } from '../../src/scoring/rewards/exact-match.ts';
import { canonical } from '../../src/scoring/rewards/extract.ts';
import { verifiers } from '../../src/scoring/rewards/index.ts';
import { lintGolds } from '../../src/scoring/rewards/lint-golds.ts';
import { multipleChoice } from '../../src/scoring/rewards/multiple-choice.ts';
import { numeric } from '../../src/scoring/rewards/numeric.ts';
import type { PureVerifier } from '../../src/scoring/rewards/reward.ts';

interface Row {
  id: string;
  verifier: string;
  prediction: string;
  gold: unknown;
  expected: number | null;
  params?: unknown;
}
const fixture = new URL('../fixtures/vectors/verifiers.json', import.meta.url);
const { vectors } = JSON.parse(readFileSync(fixture, 'utf8')) as { vectors: Row[] };
const OPTIONS = { A: 'a red house', B: 'a blue house', C: 'a green house', D: 'no house' };

type Case = readonly [completion: string, gold: unknown, reward: number | null, params?: object];

function grades(test: Test, verifier: PureVerifier, cases: readonly Case[], common: object = {}): void {
  for (const [completion, gold, reward, params] of cases) {
    const grade = verifier.grade({ completion, gold, params: { ...common, ...params } });
    const label = `${JSON.stringify(completion)} for ${JSON.stringify(gold)} ${JSON.stringify(params ?? {})}`;
    test.equal(grade.reward, reward, label);
  }
}

t.test('every reference row of every verifier here', async (t) => {
  for (const verifier of verifiers) {
    const rows = vectors.filter((row) => row.verifier.replaceAll('_', '-') === verifier.id);
    t.ok(rows.length > 0, `${verifier.id} has rows`);
    for (const { id, prediction: completion, gold, expected, params } of rows) {
      t.equal(verifier.grade({ completion, gold, params: params ?? {} }).reward, expected, id);
    }
  }
});

t.test('exact match keeps what carries meaning', async (t) => {
  grades(t, exactMatch, [
    ['Answer: -5', '5', 0],
    ['Answer: 1/2', '12', 0],
    ['the', 'the', 1],
    ['Answer: An', 'an', 1],
    ['Answer: "Paris".', 'paris', 1],
    ['Answer: Paris or London', 'Paris', 0],
    ['Answer: not Paris', 'Paris', 0],
    ['The answer is Paris. It is in France.', 'Paris', 1],
    ['\\boxed{\\text{Yes}}', 'yes', 1],
    ['> ) }', '> ) }', 1],
    ['> ) ]', '> ) }', 0],
    ['A\nB', 'A\nB', 1],
    ['Answer: stra\u00dfe', 'STRASSE', 1],
    ['Answer: 5', 5, 1],
    ['<think>Paris', 'Paris', 0],
    ['x', '', 0],
    ['x', {}, null],
    ['x', [], null],
    ['x', 'x', null, { unknown: 1 }],
  ]);
});

t.test('multiple choice reads labels, never mentions', async (t) => {
  const cases: Case[] = [
    ['\\boxed{\\textbf{(B)}}', 'B', 1],
    ['b', 'B', 1],
    ['A good house is rare.', 'A', 0],
    ['Answer: a good house', 'A', 0],
    ['The answer is B because it is blue.', 'B', 1],
    ['The answer is B. This is because A is wrong.', 'B', 1],
    ['B. a blue house', 'B', 1],
    ['Answer: B a blue house', 'B', 1],
    ['Answer: B) a red house', 'B', 0],
    ['Answer: a red house', 'B', 0],
    ['The answer is not B', 'B', 0],
    ['Answer: B/C', 'B', 0],
    ['Answer: B) or C)', 'B', 0],
    ['Answer: B) or maybe (C)', 'B', 0],
    ['Answer: B) or A', 'B', 0],
    ['Answer: BC', 'B', 0],
    ['Answer: none', 'B', 0],
    ['Some thoughts about C.\n\n(B)', 'B', 1],
    ['So it must be B, I think.', 'B', 0],
    ['#### B', 'B', 1],
    ['B', 'a blue house', 1],
    ['B', 'Z', null],
    ['A', ['A', 'C'], null],
    ['Answer: C and A', ['A', 'C'], 1, { multi: true }],
    ['AC', ['A', 'C'], 1, { multi: true }],
    ['Answer: A', ['A', 'C'], 0, { multi: true }],
    ['Answer: A, A', ['A'], 0, { multi: true }],
  ];
  grades(t, multipleChoice, cases, { options: OPTIONS });
  grades(t, multipleChoice, [['Answer: B', 'B', 1, { options: ['x', 'y'] }]]);
  grades(t, multipleChoice, [['Answer: y', 'B', 1, { choices: { A: 'x', B: 'y' } }]]);
  grades(t, multipleChoice, [['Answer: same', 'A', 0, { options: ['same', 'same'] }]]);
  grades(t, multipleChoice, [['Answer: C', 'C', 1]]);
});

t.test('numbers are exact, and hedges are no numbers', async (t) => {
  const wrong: Case[] = [
    '5 s|5 m', '5 km|5 m', '5 wombats|5 m', '5 feet|5 m', 'Infinity|0', '-0.1|0.1', 'between 5 and 6|5', '5 \\pm 1|5',
    '5 \u00b1 1|5', '5-6|5', '5\u20136|5', '5 or 5|5', '5/0|0', '\\frac{1}{0}|0', '50%|50', '12 apples and 3 pears|12',
    'forty-two|42', '3x|3', '2\\pi|2', '2\u221a3|2', '5!|120', '5!|5', '(5)|5', '12 + 3|12', '5, 6|5', '5,6|5', '> 5|5',
    'at least 5|5', '1_000|1000', '3:4|3', '\u00a35|$5', '1e400|1e401', '5 (or 6)|5', '5 half|5', '1,2345|1', '0,123|123',
    '1.2.3|1.2', '1 23|123', '10000000001|10000000000', '5 million|5', '1/2/3|0.5', '5 m|$5', '5%|5 m', '5|-5',
  ].map((row): Case => [`Answer: ${row.split('|')[0]}`, row.split('|')[1], 0]); // prettier-ignore
  grades(t, numeric, wrong);
  const right: Case[] = [
    '500 cm|5 m', '1.5e3|1500', '2.5 million|2500000', '\u00bd|0.5', '1\u00bd|1.5', '1 1/2|1.5', '0.5|50%', '1e-3 m|1 mm',
    '25 \u00b0C|298.15 K', '77 \u00b0F|25 \u00b0C', '9.8 m/s\u00b2|9.8 m/s^2', '9.8 m s^{-2}|9.8 m/s^2', '180.16 g/mol|180.16',
    '0.18016 kg/mol|180.16 g/mol', '60 miles per hour|26.8224 m/s', '2 hours|120 minutes', '20 square meters|20 m^2',
    '8.314 J/(mol K)|8.314 J/mol/K', '5 m of rope|5 m', '$1.2 million|1200000', '50 cents|$0.5', '5 (five)|5', '20 percent|20\\%',
    '\\frac34|0.75', '\\dfrac{3}{4}|0.75', '\\frac{-3}{4}|-0.75', '-1 1/2|-1.5', '\u22123/4|-0.75', 'x = 5|5', '$5$|5', '1{,}600|1600',
    '6.02 x 10^23|6.02e23', '1,234.50|1234.5', '\\text{5 cm}|5 cm', '~ 12|12', '5.|5', '0.30000000000000004|0.3',
  ].map((row): Case => [`Answer: ${row.split('|')[0]}`, row.split('|')[1], 1]); // prettier-ignore
  grades(t, numeric, right);
  grades(t, numeric, [
    ['5', 5, 1],
    ['5', ['4', '5'], 1],
    ['5', 'abc', null],
    ['5', '5', null, { rel_tol: -1 }],
    ['5', '5', null, { reltol: 1 }],
    ['5.1', '5', 1, { abs_tol: 0.1 }],
    ['5.11', '5', 0, { abs_tol: 0.1 }],
    ['50%', '50', 1, { percent: 'lenient' }],
    ['5', '50', 0, { percent: 'lenient' }],
    ['1.234,50', '1234.5', 1, { locale: 'de' }],
    ['10 000,5', '10000.5', 1, { locale: 'fr-FR' }],
    ['5 or 6', '6', 0],
    ['We get 3. Then 12.', '12', 1, { fallback_last_number: true }],
    ['From 3-12', '-12', 0, { fallback_last_number: true }],
    ['\\boxed{3', '3', 0, { fallback_last_number: true }],
    ['Answer: 5 or 6', '6', 0, { fallback_last_number: true }],
  ]);
});

const integers = fc.bigInt(-(10n ** 30n), 10n ** 30n);

t.test('properties that hold for any number', async (t) => {
  const reward = (completion: string, gold: string) => numeric.grade({ completion, gold }).reward;
  fc.assert(
    fc.property(integers, integers, (a, b) => {
      const text = String(a);
      t.equal(reward(text, text), 1, 'a gold matches itself');
      t.equal(reward('', text), 0, 'nothing does not');
      if (a !== 0n) t.equal(reward(String(-a), text), 0, 'nor its negation');
      if (a !== b) t.equal(reward(String(b), text), 0, 'nor another number');
      t.equal(reward(`Answer: ${b}\nNo. Answer: ${text}`, text), 1, 'the last statement rules');
      if (a !== b) t.equal(reward(`Answer: ${text}\nNo. Answer: ${b}`, text), 0, 'and not an earlier one');
      t.equal(reward(`<think>\\boxed{${text}}`, text), 0, 'an open thought is no answer');
      t.equal(reward(`Answer: ${text} or ${b}`, text), 0, 'a hedge is none');
      const grouped = text.replace(/\B(?=(\d{3})+$)/g, ',');
      t.equal(reward(grouped, text), 1, 'groups of three are the same number');
      t.equal(canonical(grouped), canonical(text));
      t.equal(
        canonical(text) === canonical(String(b)),
        a === b,
        'canonical forms are as different as the numbers',
      );
    }),
    { numRuns: 60 },
  );
  fc.assert(
    fc.property(integers, fc.bigInt(1n, 10n ** 12n), (a, b) => {
      const gold = `${a}/${b}`;
      t.equal(reward(`\\boxed{\\frac{${a}}{${b}}}`, gold), 1);
      t.equal(reward(`${2n * a}/${2n * b}`, gold), 1, 'lowest terms do not matter');
    }),
    { numRuns: 60 },
  );
});

t.test('properties that hold for any text and for any garbage', async (t) => {
  const word = fc.stringMatching(/^[\p{L}\p{N}][\p{L}\p{N} .,'()-]{0,30}[\p{L}\p{N})]$/u);
  fc.assert(
    fc.property(word, (gold) => {
      const reward = (completion: string) => exactMatch.grade({ completion, gold }).reward;
      t.equal(reward(gold), 1, `${JSON.stringify(gold)} matches itself`);
      t.equal(reward(''), 0);
      t.equal(reward(`not ${gold}`), 0);
    }),
  );
  const garbage = fc.string({ unit: 'binary', maxLength: 200 });
  fc.assert(
    fc.property(garbage, fc.anything(), fc.anything(), (completion, gold, params) => {
      for (const verifier of verifiers) {
        const { reward, status } = verifier.grade({ completion, gold, params });
        if ((reward === null) !== (status === 'grader-error')) throw new Error(`${status} with ${reward}`);
      }
    }),
  );
  t.pass('no input makes a verifier throw');
});

t.test('the linter finds golds that spoil numbers', async (t) => {
  const rows = ['5', '-7', '1/3', '0'].map((gold) => ({ id: gold, gold }));
  t.same(lintGolds(numeric, rows), [], 'sound golds pass');
  t.same(
    lintGolds(numeric, [{ id: 'x', gold: 'seven' }]).map(({ kind }) => kind),
    ['self', 'empty', 'negation'],
  );
  t.same(
    lintGolds(exactMatch, [{ id: 'x', gold: '' }]).map(({ kind }) => kind),
    ['self'],
  );
  t.same(lintGolds(exactMatch, [{ id: 'x', gold: ['United States', 'USA'] }]), [], 'aliases are tried alone');
  const loose: PureVerifier = { ...exactMatch, grade: () => ({ reward: 1, status: 'graded' }) };
  const kinds = new Set(lintGolds(loose, rows).map(({ kind }) => kind));
  t.same(kinds, new Set(['empty', 'negation', 'other-gold']), 'a verifier that accepts anything');
  const multi = { multi: true, options: OPTIONS };
  t.same(lintGolds(multipleChoice, [{ id: 'x', gold: ['A', 'C'], params: multi }]), []);
});
