import fc from 'fast-check';
import t from 'tap';
import { canonical, extractAnswer } from '../../src/scoring/rewards/extract.ts';
import { verifiers } from '../../src/scoring/rewards/index.ts';
import { multipleChoice } from '../../src/scoring/rewards/multiple-choice.ts';
import { numeric } from '../../src/scoring/rewards/numeric.ts';
import { cleanUnicode } from '../../src/scoring/rewards/unicode.ts';

const OPTIONS = { A: 'a red house', B: 'a blue house', C: 'a green house', D: 'no house' };

t.test('the stated answer is found, and only that', async (t) => {
  const found: [string, string | undefined, string?][] = [
    ['<think>Answer: 1</think>Answer: 2', '2', 'phrase'],
    ['the template opened it, Answer: 1</think>\n2', '2', 'whole'],
    ['<think>one <think> two</think> Answer: 1</think>\nAnswer: 2', '2', 'phrase'],
    ['Answer: 1 <think>or rather', undefined],
    ['\\boxed{1} then \\boxed{\\frac{1}{2}}', '\\frac{1}{2}', 'boxed'],
    ['\\boxed{\\{1, 2\\}}', '\\{1, 2\\}', 'boxed'],
    ['\\boxed{\\boxed{5}}', '5', 'boxed'],
    ['Answer: 3. \\boxed{4', undefined],
    ['\\boxed{}', undefined],
    ['<answer>1</answer> <answer> 2 </answer>', '2', 'tag'],
    ['<answer>42', '42', 'tag'],
    ['work\n#### 1,600', '1,600', 'hash'],
    ['#### Step 4: add\nThe answer is 5.', '5.', 'phrase'],
    ['**Final Answer: 73**', '73', 'phrase'],
    ['### Final Answer\n\n73', '73', 'phrase'],
    ['The answer is:\n\\[\n5\n\\]', '5', 'phrase'],
    ['The answer to the question is 7 because 3+4=7.', '7', 'phrase'],
    ['The answer is St. Louis. It lies on a river.', 'St. Louis.', 'phrase'],
    ['The answer is 5.\nSome more words.', '5.', 'phrase'],
    ['Answer: 5\nWait. Answer: 6', '6', 'phrase'],
    ['The final answer is', undefined],
    ['`x`', 'x', 'whole'],
    ['two\nlines', undefined],
    ['**', undefined],
    ['', undefined],
    ['2**3', '2**3', 'whole'],
  ];
  for (const [text, answer, source] of found) {
    const wanted = answer === undefined ? undefined : { answer, source };
    t.same(extractAnswer(text), wanted, JSON.stringify(text));
  }
});

t.test('characters that look alike are spelled alike, before they can change a number', async (t) => {
  t.equal(cleanUnicode('1\u00bd \u22125\u00a0m\u200b 10\u2076 3\u00d74 \uff15'), '1 1/2 -5 m 10^{6} 3*4 5');
  t.equal(cleanUnicode('cafe\u0301'), 'caf\u00e9');
});

t.test('lengths are capped before anything is parsed', async (t) => {
  const padding = 'x '.repeat(40_000);
  t.same(extractAnswer(`${padding}\nAnswer: 5`), { answer: '5', source: 'phrase' }, 'the end is read');
  t.equal(extractAnswer(`Answer: 5\n${padding}\n.`), undefined, 'the beginning is not');
  const long = `\\boxed{${'1'.repeat(4_097)}}`;
  t.match(numeric.grade({ completion: long, gold: '1' }), { reward: 0, status: 'unparseable' });
  const fits = '1'.repeat(4_000);
  t.equal(numeric.grade({ completion: `\\boxed{${fits}}`, gold: fits }).reward, 1);
});

t.test('hostile completions are graded in no time', async (t) => {
  const size = 64_000;
  const pieces = [
    '(',
    '{',
    '\\boxed{',
    '<think>',
    '</think>',
    '#### 1\n',
    'answer is ',
    '**',
    '$',
    '1,',
    '1/',
    '.',
  ];
  const all = [
    ...pieces,
    ' ',
    '~',
    'x=',
    '\\frac{',
    '\\text{',
    'A, ',
    '!.',
    "'",
    '1 1/',
    '(A) ',
    '\u00bd',
    '5 m ',
    'a or ',
  ];
  for (const piece of all) {
    const text = piece.repeat(size / piece.length);
    for (const completion of [text, `Answer: ${text.slice(0, 4_000)}`]) {
      for (const verifier of verifiers) {
        const before = performance.now();
        const params = verifier === multipleChoice ? { options: OPTIONS } : {};
        const { reward } = verifier.grade({ completion, gold: verifier === numeric ? '7' : 'B', params });
        t.equal(reward, 0, `${verifier.id}: ${JSON.stringify(piece)}`);
        t.ok(performance.now() - before < 500, 'is fast');
        canonical(completion);
      }
    }
  }
  t.equal(
    numeric.grade({ completion: 'Answer: 1e999999999', gold: '1' }).reward,
    0,
    'no giant power is built',
  );
});

t.test('canonical forms merge spellings of one answer and nothing else', async (t) => {
  const same = [
    ['5', '5.', '$5$', '5.0', '\\frac{10}{2}', '\\boxed{5}', '+5', ' 5 ', '$5', '**5**'],
    ['1/2', '0.5', '.5', '\\frac12', '50%', '\u00bd'],
    ['36 km/h', '10 m/s'],
    ['(B)', 'B', 'b', 'B)'],
    ['The Hague.', 'the hague', '"Hague"'],
    ['1,600 apples', '1600 Apples'],
  ];
  const forms = same.map((spellings) => new Set(spellings.map(canonical)));
  forms.forEach((set, index) => t.equal(set.size, 1, String(same[index])));
  t.equal(new Set(forms.flatMap((set) => [...set])).size, same.length, 'the groups stay apart');
  for (const [a, b] of [
    ['5', '-5'],
    ['5', '5!'],
    ['5', '5x'],
    ['5 m', '5 km'],
    ['5 apples', '5 pears'],
    ['3.5', '35'],
  ]) {
    t.not(canonical(a ?? ''), canonical(b ?? ''), `${a} is not ${b}`);
  }
  fc.assert(
    fc.property(
      fc.string({ unit: 'grapheme' }),
      (text) => canonical(canonical(text)) === canonical(canonical(canonical(text))),
    ),
  );
});
