import fc from 'fast-check';
import t from 'tap';
import type { Answer } from '../../src/contract/call.ts';
import { optionsFor } from '../../src/gateway/catalog.ts';
import { cascade } from '../../src/gateway/protocols/cascade.ts';
import { statedConfidence } from '../../src/gateway/protocols/confidence.ts';
import { Cast, NAMES, performPlan, planOf, TASK, textOf, USAGE, type Act } from '../support/cast.ts';

const TEAM = [0, 1, 2];

/** A token beside which others were as likely as these numbers say; its own probability is the first. */
const token = (text: string, ...probabilities: number[]) => ({
  token: text,
  logprob: Math.log(probabilities[0] ?? 1),
  top_logprobs: probabilities.map((p, index) => ({
    token: index === 0 ? text : `?${index}`,
    logprob: Math.log(p),
  })),
});

const answer = (tokens: readonly { token: string }[], more: Partial<Answer> = {}): Answer => ({
  message: { text: tokens.map((one) => one.token).join('') },
  finishReason: 'stop',
  usage: USAGE,
  from: ['ada'],
  logprobs: tokens,
  ...more,
});

/** Says 16, as sure as told. */
const sure = (confidence: number): Act => {
  const tokens = [token('The answer is ', 1, 1), token('16', confidence, 1 - confidence)];
  return { words: tokens.map((one) => one.token), more: { logprobs: tokens } };
};

t.test('confidence is that of the stated answer’s tokens and of no others', (t) => {
  const rows: [string, readonly { token: string }[], number | undefined][] = [
    ['one token', [token('The answer is ', 0.5, 0.5), token('16', 0.9, 0.1), token('.', 0.5, 0.5)], 0.9],
    ['two', [token('answer: ', 0.5, 0.5), token('1', 0.8, 0.2), token('6', 0.6, 0.4)], 0.7],
    ['a part of the whole', [token('answer: ', 1, 1), token('16', 0.3, 0.1)], 0.75],
    [
      'of six alternatives five',
      [token('answer: ', 1, 1), token('16', 0.5, 0.1, 0.1, 0.1, 0.1, 0.1)],
      0.5 / 0.9,
    ],
    ['the likeliest, not the one that came', [token('answer: ', 1, 1), token('16', 0.1, 0.9)], 0.9],
    [
      'the last place in which it stands as a word of its own',
      [
        token('A', 1, 1),
        token(' is it. The answer is ', 1, 1),
        token('A', 0.7, 0.3),
        token(', because Atom', 1, 1),
      ],
      0.7,
    ],
    ['a box', [token('\\boxed{', 0.5, 0.5), token('x^2', 0.9, 0.1), token('}', 0.5, 0.5)], 0.9],
    ['a token that begins before it', [token('is it', 1, 1), token('. Answer: 16', 0.6, 0.4)], 0.6],
    ['no alternatives', [token('answer: ', 1), token('16', 1)], undefined],
    ['nothing stated', [token('One.\n', 0.9, 0.1), token('Two.', 0.9, 0.1)], undefined],
    ['no tokens', [], undefined],
  ];
  for (const [name, tokens, expected] of rows) {
    const confidence = statedConfidence(answer(tokens));
    if (expected === undefined || confidence === undefined) t.equal(confidence, expected, name);
    else t.ok(Math.abs(confidence - expected) < 1e-12, `${name}: ${confidence}`);
  }
  const told = answer([token('answer: ', 1, 1), token('16', 0.9, 0.1)]);
  t.equal(
    statedConfidence({ ...told, message: { text: 'The answer is 17.' } }),
    undefined,
    'of another text',
  );
  t.equal(statedConfidence({ ...told, logprobs: [null, {}, 'x', { token: 1, logprob: 0 }] }), undefined);
  t.end();
});

t.test('confidence is a share, and words around the answer do not change it', (t) => {
  const probabilities = fc.array(fc.double({ min: 1e-6, max: 1, noNaN: true }), {
    minLength: 2,
    maxLength: 9,
  });
  fc.assert(
    fc.property(probabilities, fc.array(probabilities), (own, around) => {
      const told = [token('The answer is ', 1, 1), token('16', ...own)];
      const confidence = statedConfidence(answer(told)) ?? -1;
      const filler = around.map((one) => token('well ', ...one));
      return (
        confidence >= 1 / Math.min(own.length, 5) - 1e-9 &&
        confidence <= 1 &&
        statedConfidence(answer([...filler, ...told])) === confidence
      );
    }),
  );
  t.end();
});

t.test('an answer is kept from its member’s own threshold on', async (t) => {
  const all = ['answer/cyd', 'answer/bob', 'answer/ada'];
  const rows: [Readonly<Record<string, number>>, number, string[]][] = [
    [{}, 0.91, all.slice(0, 1)],
    [{}, 0.89, all],
    [{ cyd: 0.5 }, 0.5, all.slice(0, 1)],
    [{ cyd: 0.75, bob: 0.5 }, 0.5, all.slice(0, 2)],
    [{ ada: 0 }, 0.5, all],
    [{ cyd: 0 }, 0.5, all.slice(0, 1)],
    [{ cyd: 1, bob: 1 }, 0.99, all],
    [{ cyd: 1, bob: 1 }, 1, all.slice(0, 1)],
  ];
  for (const [thresholds, confidence, slots] of rows) {
    const cast = new Cast(() => sure(confidence));
    const options = optionsFor(cascade, { thresholds });
    const { outcome } = await performPlan(cascade, cast, planOf(cascade, options, TEAM));
    const kept = [slots.at(-1)?.split('/')[1]];
    t.strictSame([cast.slots(), outcome.answerFrom], [slots, kept], JSON.stringify(thresholds));
  }
});

t.test(
  'by any confidences and thresholds, the first that reaches its own is the answer, else the last',
  async () => {
    const share = fc.double({ min: 0, max: 1, noNaN: true });
    await fc.assert(
      fc.asyncProperty(
        fc.subarray([0, 1, 2, 3, 4], { minLength: 1 }),
        fc.shuffledSubarray(NAMES),
        fc.array(fc.record({ told: fc.double({ min: 0.5, max: 0.99, noNaN: true }), threshold: share }), {
          minLength: 5,
          maxLength: 5,
        }),
        async (positions, order, members) => {
          const of = (alias: string) => members[NAMES.indexOf(alias)]!;
          const thresholds = Object.fromEntries(NAMES.map((alias) => [alias, of(alias).threshold]));
          const cast = new Cast(({ member }) => sure(of(member.alias).told));
          const options = optionsFor(cascade, { order, thresholds });
          const { outcome } = await performPlan(cascade, cast, planOf(cascade, options, positions));
          const team = positions.map((position) => NAMES[position]!);
          const asked = [
            ...order.filter((alias) => team.includes(alias)),
            ...team.toReversed().filter((alias) => !order.includes(alias)),
          ];
          const measured = (alias: string) =>
            statedConfidence({ ...answer([]), ...said(of(alias).told) }) ?? -1;
          const kept = asked.find((alias) => measured(alias) >= of(alias).threshold) ?? asked.at(-1);
          return outcome.answerFrom.join() === kept && cast.seen.length === asked.indexOf(kept ?? '') + 1;
        },
      ),
      { numRuns: 200 },
    );
  },
);

/** What `sure` becomes once it is said. */
const said = (confidence: number): Partial<Answer> => {
  const { words = [], more } = sure(confidence);
  return { message: { text: words.join('') }, ...more };
};

t.test('asked, a member sees its own answer as its own, and only the word counts', async (t) => {
  const options = optionsFor(cascade, { mode: 'ask' });
  const rows: [string, string[]][] = [
    ['yes', ['answer/cyd', 'keep/cyd']],
    ['no', ['answer/cyd', 'keep/cyd', 'answer/bob', 'keep/bob', 'answer/ada']],
    ['I am not unconfident: yes', ['answer/cyd', 'keep/cyd', 'answer/bob', 'keep/bob', 'answer/ada']],
  ];
  for (const [word, slots] of rows) {
    const cast = new Cast((call) => ({
      words: [call.choose ? word : `<think>Hm.</think>I am ${call.member.alias}`],
    }));
    const { outcome } = await performPlan(cascade, cast, planOf(cascade, options, TEAM));
    t.strictSame(cast.slots(), slots, word);
    t.strictSame(outcome.answerFrom, [slots.at(-1)?.split('/')[1]]);
    const asked = cast.seen[1]!.call;
    t.strictSame(asked.messages.slice(0, 3), [...TASK.messages, { role: 'assistant', content: 'I am cyd' }]);
    t.equal(asked.messages[3]?.role, 'user');
    t.strictSame(asked.reads, ['answer/cyd']);
    t.notOk(cast.seen[0]!.call.confidence, 'no log-probabilities are asked for');
  }
});

t.test('whose endpoint tells nothing is asked, the others are not', async (t) => {
  const cast = new Cast((call) => {
    if (call.choose) return { words: ['no'] };
    return call.member.alias === 'cyd' ? { words: ['The answer is 16'] } : sure(0.95);
  });
  await performPlan(cascade, cast, planOf(cascade, optionsFor(cascade, {}), TEAM));
  t.strictSame(cast.slots(), ['answer/cyd', 'keep/cyd', 'answer/bob']);
});

t.test('an answer that never left its reasoning is neither kept nor asked about', async (t) => {
  const cast = new Cast((call) => ({
    words: [call.member.alias === 'cyd' ? '<think>16, as' : 'The answer is 16'],
  }));
  const { outcome } = await performPlan(cascade, cast, planOf(cascade, optionsFor(cascade, {}), [1, 2]));
  t.strictSame(cast.slots(), ['answer/cyd', 'answer/bob']);
  t.strictSame(outcome.answerFrom, ['bob']);
});

t.test('a kept answer comes whole, the last member’s as it speaks', async (t) => {
  for (const [confidence, pieces] of [
    [0.95, 1],
    [0.5, 2],
  ] as const) {
    const cast = new Cast(() => sure(confidence));
    const { parts } = await performPlan(cascade, cast, planOf(cascade, optionsFor(cascade, {}), TEAM));
    t.equal(parts.filter(({ type }) => type === 'text-delta').length, pieces);
    t.equal(textOf(parts), 'The answer is 16');
  }
});
