/** What options are fitted to members' own answers, and the routes that use them. */
import t from 'tap';
import type { Answer } from '../../../src/contract/call.ts';
import type { Task } from '../../../src/contract/task.ts';
import { optionsFor } from '../../../src/gateway/catalog.ts';
import { anchor } from '../../../src/gateway/protocols/anchor.ts';
import { cascade } from '../../../src/gateway/protocols/cascade.ts';
import { graphRoute } from '../../../src/gateway/protocols/graph-route.ts';
import { mux } from '../../../src/gateway/protocols/mux.ts';
import { promptFeatures } from '../../../src/gateway/protocols/prompt-features.ts';
import type { Options, Protocol } from '../../../src/gateway/protocols/protocol.ts';
import type { SoloAnswer, SoloRow } from '../../../src/gateway/protocols/solo.ts';
import { trainedRoute } from '../../../src/gateway/protocols/trained-route.ts';
import { Cast, memberNamed, NAMES, performPlan, planOf, USAGE } from '../../support/cast.ts';

const taskOf = (prompt: string): Task => ({ messages: [{ role: 'user', content: prompt }], sampling: {} });

function saying(alias: string, text: string, isRight: boolean, more: Partial<Answer> = {}): SoloAnswer {
  const answer: Answer = { message: { text }, finishReason: 'stop', usage: USAGE, from: [alias], ...more };
  return { isRight, said: { member: memberNamed(alias), slot: `answer/${alias}`, sample: 0, answer } };
}

const fit = (protocol: Protocol, given: Options, rows: readonly SoloRow[], aliases: readonly string[]) =>
  protocol.fit!.fit(optionsFor(protocol, given), rows, aliases);

t.test('mux: agreement is worth as much as it was, and never less the more agree', (t) => {
  // ada: of three samples all agree and it is right; or two agree and it is wrong.
  const rows = Array.from({ length: 40 }, (_, index): SoloRow => {
    const isSure = index % 2 === 0;
    const ada = [0, 1, 2].map((sample) =>
      saying('ada', `The final answer is ${isSure || sample < 2 ? 7 : 8}.`, isSure),
    );
    const bob = [0, 1, 2].map((sample) => saying('bob', `The final answer is ${sample}.`, sample === 0));
    return {
      task: taskOf('How many?'),
      answers: new Map([
        ['ada', ada],
        ['bob', bob],
      ]),
    };
  });
  const { calibration } = fit(mux, { samples: 3 }, rows, ['ada', 'bob']) as {
    calibration: Record<string, number[]>;
  };
  const [one, two, three] = calibration['ada']!;
  t.ok(three! > 0.95 && two! < 0.15 && one! <= two!);
  // Of bob's samples one each is said; the first is heard and was right.
  t.ok(calibration['bob']![0]! > 0.9);
  t.ok(calibration['bob']!.every((value, index, all) => index === 0 || value >= all[index - 1]!));
  t.equal(mux.fit!.samples(optionsFor(mux, { samples: 3 })), 3);
  t.end();
});

/** An answer whose stated token had this probability, and one other the rest. */
const sure = (alias: string, probability: number, isRight: boolean) => {
  const tokens = ['The final answer is ', '7', '.'].map((token) => ({
    token,
    logprob: Math.log(probability),
    top_logprobs: [
      { token, logprob: Math.log(probability) },
      { token: '8', logprob: Math.log(1 - probability) },
    ],
  }));
  return saying(alias, 'The final answer is 7.', isRight, { logprobs: tokens });
};

t.test('cascade: an answer is kept from where it is right as often as those of later members', (t) => {
  const rows = Array.from({ length: 100 }, (_, index): SoloRow => {
    const confidence = 0.5 + index / 250;
    // cyd is right above 0.7 alone; bob, who comes next, always nine times of ten; ada, the last, eight times.
    const answers = [
      ['ada', [saying('ada', 'x', index % 10 < 8)]],
      ['bob', [saying('bob', 'x', index % 10 < 9)]],
      ['cyd', [sure('cyd', confidence, confidence > 0.7)]],
    ] as const;
    return { task: taskOf('?'), answers: new Map(answers) };
  });
  const { thresholds } = fit(cascade, {}, rows, ['ada', 'bob', 'cyd']) as {
    thresholds: Record<string, number>;
  };
  t.ok(thresholds['cyd']! > 0.69 && thresholds['cyd']! < 0.72, `${thresholds['cyd']}`);
  t.notOk('bob' in thresholds, 'its endpoint told nothing');
  t.notOk('ada' in thresholds, 'the last one has none');
  const never = rows.map(({ task, answers }) => ({
    task,
    answers: new Map([...answers, ['cyd', [sure('cyd', 0.9, false)]]]),
  }));
  t.strictSame(fit(cascade, {}, never, ['ada', 'bob', 'cyd'])['thresholds'], { cyd: 1 });
  t.end();
});

t.test('anchor: rates are the shares of what partners mend and spoil', (t) => {
  const rows = Array.from({ length: 80 }, (_, index): SoloRow => {
    const isRight = index < 40;
    // Of the anchor's wrong answers bob has three of four right, of its right ones one of four wrong.
    const bob = index % 4 !== 0;
    return {
      task: taskOf('?'),
      answers: new Map([
        ['ada', [saying('ada', 'x', isRight)]],
        ['bob', [saying('bob', 'x', bob)]],
      ]),
    };
  });
  t.strictSame(fit(anchor, {}, rows, ['ada', 'bob'])['rates'], { bob: { rescue: 31 / 42, damage: 11 / 42 } });
  const turned = fit(anchor, { anchors: ['bob'] }, rows, ['ada', 'bob'])['rates'];
  t.strictSame(Object.keys(turned as object), ['ada'], 'the partner is whoever is not the anchor');
  t.end();
});

t.test('features are the same for the same words, of length 1, and blind to which numbers there are', (t) => {
  const features = (text: string) => promptFeatures(taskOf(text), 64);
  t.strictSame(features('Add 12 and 34.'), features('add 56 and 78.'));
  t.notSame(features('Add 12 and 34.'), features('Reverse 12.'));
  t.ok(Math.abs(Math.hypot(...features('Add 12 and 34.')) - 1) < 1e-12);
  t.strictSame(features(''), new Array(64).fill(0));
  const { messages } = taskOf('Add 1 and 2.');
  const conversation = [{ role: 'user' as const, content: 'Reverse 5.' }, ...messages];
  t.strictSame(
    promptFeatures({ messages: conversation }, 64),
    features('Add 1 and 2.'),
    'the last turn counts',
  );
  t.end();
});

/** ada can add, bob reverse, cyd both but one in three of each. */
const KINDS = [
  ['Add 12 and 34.', [true, false, false]],
  ['Reverse the word house.', [false, true, false]],
  ['Please add 5 to 17.', [true, false, true]],
  ['Give the word mouse reversed.', [false, true, true]],
  ['Add the numbers 3, 4 and 9.', [true, false, false]],
  ['What is horse in reverse?', [false, true, false]],
] as const;
const routed = Array.from({ length: 60 }, (_, index): SoloRow => {
  const [prompt, rights] = KINDS[index % KINDS.length]!;
  const answers = ['ada', 'bob', 'cyd'].map((alias, at): [string, SoloAnswer[]] => [
    alias,
    [saying(alias, 'x', rights[at]!)],
  ]);
  return { task: taskOf(prompt), answers: new Map(answers) };
});

for (const protocol of [trainedRoute, graphRoute]) {
  t.test(`${protocol.name}: one fit names the best of every coalition`, async (t) => {
    const options = optionsFor(protocol, fit(protocol, { dimensions: 64 }, routed, ['ada', 'bob', 'cyd']));
    const asked = async (positions: number[], prompt: string) => {
      const cast = new Cast(({ slot }) => ({ words: [`I am ${slot}.`] }));
      await performPlan(protocol, cast, planOf(protocol, options, positions), { task: taskOf(prompt) });
      return cast.seen.map(({ call }) => call.member.alias);
    };
    for (const [prompt, first, second] of [
      ['Add 88 and 11.', 'ada', 'cyd'],
      ['Reverse the word mouse.', 'bob', 'cyd'],
    ] as const) {
      const place = NAMES.indexOf(first);
      t.strictSame(await asked([0, 1, 2], prompt), [first]);
      t.strictSame(await asked([place, 2], prompt), [first]);
      t.strictSame(
        await asked(
          [0, 1, 2].filter((at) => at !== place),
          prompt,
        ),
        [second],
        `without ${first}`,
      );
      t.strictSame(await asked([2], prompt), ['cyd']);
      t.strictSame(await asked([3, 4], prompt), ['dan'], 'about whom nothing is known, by the pool’s order');
      t.strictSame(await asked([place, 3], prompt), [first]);
    }
  });

  t.test(`${protocol.name}: options that do not fit together are refused`, (t) => {
    const options = fit(protocol, { dimensions: 64 }, routed, ['ada', 'bob']);
    t.throws(() => optionsFor(protocol, { ...options, dimensions: 32 }), { code: 'option_invalid' });
    t.end();
  });
}

t.test('trained-route: a dearer member must be that much likelier to be right', async (t) => {
  const rows = routed.map((row): SoloRow => ({
    ...row,
    answers: new Map(
      [
        ['ada', 10],
        ['bob', 9],
      ].map(([alias, of]): [string, SoloAnswer[]] => [
        String(alias),
        [saying(String(alias), 'x', routed.indexOf(row) % 10 < Number(of))],
      ]),
    ),
  }));
  const options = fit(trainedRoute, { dimensions: 16 }, rows, ['ada', 'bob']);
  const first = async (worthUsd: number | undefined) => {
    const cast = new Cast(() => ({ words: ['Hello.'] }));
    const plan = planOf(trainedRoute, { ...options, ...(worthUsd !== undefined && { worthUsd }) }, [0, 1]);
    const [ada, bob] = plan.members;
    const dear = { ...ada!, price: { inputMicros: 20_000_000, outputMicros: 80_000_000 } };
    await performPlan(trainedRoute, cast, { ...plan, members: [dear, bob!] }, { task: taskOf('Add 1.') });
    return cast.seen[0]?.call.member.alias;
  };
  t.equal(await first(undefined), 'ada');
  t.equal(await first(0.1), 'bob', '5 cents more for a tenth of 10 cents');
  t.equal(await first(10), 'ada');
});
