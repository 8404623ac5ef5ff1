import fc from 'fast-check';
import t from 'tap';
import type { Call } from '../../src/contract/call.ts';
import { textOf } from '../../src/contract/chat.ts';
import { optionsFor } from '../../src/gateway/catalog.ts';
import { anchor } from '../../src/gateway/protocols/anchor.ts';
import type { Options } from '../../src/gateway/protocols/protocol.ts';
import { Cast, memberNamed, NAMES, performPlan, planOf, TASK, type Act } from '../support/cast.ts';

const TEAM = [0, 1, 2];

/** States an answer, as sure as told. */
const state = (answer: string, sure?: number): Act => {
  const entry = (token: string, p: number) => ({ token, logprob: Math.log(p) });
  const likely = (token: string, p: number) => ({
    ...entry(token, p),
    top_logprobs: [entry(token, p), entry('?', 1 - p)],
  });
  const more = sure === undefined ? {} : { logprobs: [likely('The answer is ', 0.5), likely(answer, sure)] };
  return { words: ['The answer is ', answer], more };
};

/** Everybody states its own name, ada as sure as told; label steps get what `say` says. */
const differing = (sure: number | undefined, say: (call: Call) => string) => (call: Call) => {
  if (call.choose) return { words: [say(call)] };
  return state(call.member.alias, call.member.alias === 'ada' ? sure : undefined);
};

/** The label of the answer that this member stated, in the block that a chooser reads. */
const labelOf = (alias: string) => (call: Call) => {
  const prompt = textOf(call.messages.at(-1)!);
  return new RegExp(`\\] (\\d)\\nThe answer is ${alias}`).exec(prompt)?.[1] ?? 'none';
};

async function runWith(
  script: (call: Call) => Act,
  given: Options = {},
  positions = TEAM,
  more: object = {},
) {
  const cast = new Cast(script);
  const plan = planOf(anchor, optionsFor(anchor, given), positions, more);
  const { outcome } = await performPlan(anchor, cast, plan);
  return { slots: cast.slots(), from: outcome.answerFrom.join(), seen: cast.seen };
}

t.test('an anchor that is sure enough is heard alone', async (t) => {
  // With the priors a partner gains while (1 − right)·0.5 > right·0.1: below 5/6.
  for (const [sure, calls] of [
    [0.84, 1],
    [0.83, 3],
    [undefined, 3],
  ] as const) {
    const { slots, from } = await runWith(differing(sure, labelOf('ada')));
    t.equal(slots.length, calls, `${sure}`);
    t.equal(from, 'ada');
  }
});

t.test('the partner that gains most is asked, the plain question', async (t) => {
  const rates = { bob: { rescue: 0.5, damage: 0.3 }, cyd: { rescue: 0.6, damage: 0.2 } };
  const rows: [number | undefined, Options, string | undefined][] = [
    [undefined, rates, 'cyd'],
    [undefined, { cyd: rates.cyd }, 'bob'],
    [undefined, { bob: { rescue: 0.1, damage: 0.1 }, cyd: { rescue: 0, damage: 0 } }, undefined],
    [0.9, { bob: { rescue: 1, damage: 0.1 }, cyd: { rescue: 0.9, damage: 0.05 } }, 'cyd'],
    [0.7, { bob: { rescue: 1, damage: 0.1 }, cyd: { rescue: 0.9, damage: 0.09 } }, 'bob'],
  ];
  for (const [sure, given, partner] of rows) {
    const { slots, seen } = await runWith(differing(sure, labelOf('ada')), { rates: given });
    t.equal(slots[1], partner && `answer/${partner}`, JSON.stringify(given));
    if (partner) t.strictSame([seen[1]!.call.messages, seen[1]!.call.reads], [TASK.messages, []]);
  }
});

t.test('a partner must be worth its price, where a right answer has one', async (t) => {
  // A call costs 5 × 1 + 3 × 2 = 11 micro-USD; the gain at right = 1/2 and the priors is 0.2.
  for (const [worthUsd, calls] of [
    [54e-6, 1],
    [56e-6, 3],
  ] as const) {
    t.equal((await runWith(differing(undefined, labelOf('ada')), { worthUsd })).slots.length, calls);
  }
  const members = TEAM.map((position) => {
    const member = memberNamed(NAMES[position]!);
    return position === 1
      ? { ...member, price: { inputMicros: 9_000_000, outputMicros: 9_000_000 } }
      : member;
  });
  const { slots } = await runWith(differing(undefined, labelOf('ada')), { worthUsd: 1 }, TEAM, { members });
  t.equal(slots[1], 'answer/cyd', 'of two that gain alike the cheaper');
});

t.test('agreement keeps the anchor’s words, and asks nobody', async (t) => {
  const { slots, from } = await runWith(({ member }) => state(member.alias === 'ada' ? '16.' : '$16$'));
  t.strictSame(slots, ['answer/ada', 'answer/bob']);
  t.equal(from, 'ada');
});

t.test('where they differ the anchor chooses, and what is no label adopts the partner’s', async (t) => {
  for (const [say, expected] of [
    [labelOf('ada'), 'ada'],
    [labelOf('bob'), 'bob'],
    [() => 'The first is right.', 'bob'],
  ] as const) {
    const { slots, from, seen } = await runWith(differing(undefined, say));
    t.strictSame(slots, ['answer/ada', 'answer/bob', 'choose/ada']);
    t.strictSame(seen[2]!.call.reads, ['answer/ada', 'answer/bob']);
    t.equal(from, expected);
  }
  const { from } = await runWith((call) =>
    call.choose ? { fail: 'upstream_status' } : differing(undefined, () => '')(call),
  );
  t.equal(from, 'bob');
});

t.test('neither place favours anybody', async (t) => {
  let first = 0;
  for (let prompt = 0; prompt < 60; prompt++) {
    const more = { promptInstance: `prompt-${prompt}` };
    if (
      (
        await runWith(
          differing(undefined, () => '1'),
          {},
          TEAM,
          more,
        )
      ).from === 'ada'
    )
      first++;
  }
  // Binomial with n = 60 and p = 1/2: outside of 17 to 43 with probability below 10⁻³.
  t.ok(first >= 17 && first <= 43, `${first} of 60`);
});

t.test('with samples the anchor is as sure as they agree, and failures count against it', async (t) => {
  const rows: [string, string[], string][] = [
    ['11111', [], '1'],
    ['1112!', ['answer/bob', 'choose/ada'], '1'],
    ['12222', ['answer/bob', 'choose/ada'], '2'],
    ['111?1', ['answer/bob', 'choose/ada'], '1'],
  ];
  for (const [samples, more, stated] of rows) {
    const script = (call: Call): Act => {
      if (call.choose) return { words: [labelOf(stated)(call)] };
      if (call.member.alias !== 'ada') return state('9');
      const said = samples[call.sample]!;
      if (said === '!') return { fail: 'upstream_status' };
      return said === '?' ? { words: ['Who\n', 'knows.'] } : state(said);
    };
    const { slots, from } = await runWith(script, { anchorSamples: 5 });
    t.strictSame(slots.slice(5), more, samples);
    t.equal(from, 'ada');
  }
});

t.test('a partner that fails or never leaves its reasoning is replaced by the next that gains', async (t) => {
  for (const silent of [{ fail: 'upstream_status' } as const, { words: ['<think>16'] }]) {
    const script = (call: Call) =>
      call.member.alias === 'bob' ? silent : differing(undefined, labelOf('cyd'))(call);
    t.match(await runWith(script), {
      from: 'cyd',
      slots: ['answer/ada', 'answer/bob', 'answer/cyd', 'choose/ada'],
    });
    const rates = { cyd: { rescue: 0, damage: 1 } };
    t.match(await runWith(script, { rates }), { from: 'ada', slots: ['answer/ada', 'answer/bob'] });
  }
});

t.test('an anchor that never leaves its reasoning is wrong', async (t) => {
  const script = (call: Call) => (call.member.alias === 'ada' ? { words: ['<think>16'] } : state('16'));
  t.match(await runWith(script), { from: 'bob', slots: ['answer/ada', 'answer/bob'] });
});

t.test('who is anchor is the role rule’s to say', async (t) => {
  const { slots } = await runWith(differing(undefined, labelOf('cyd')), { anchors: ['eve', 'cyd'] });
  t.strictSame(slots, ['answer/cyd', 'answer/ada', 'choose/cyd']);
});

t.test('nobody is asked from whom nothing is to be gained, for any rates', async () => {
  const share = fc.double({ min: 0, max: 1, noNaN: true });
  const rate = fc.record({ rescue: share, damage: share });
  await fc.assert(
    fc.asyncProperty(
      fc.record({ bob: rate, cyd: rate }),
      fc.double({ min: 0.5, max: 0.99, noNaN: true }),
      async (rates, sure) => {
        const { slots } = await runWith(differing(sure, labelOf('ada')), { rates });
        const gain = ({ rescue, damage }: { rescue: number; damage: number }) =>
          (1 - sure) * rescue - sure * damage;
        const gains = { bob: gain(rates.bob), cyd: gain(rates.cyd) };
        if (Math.abs(gains.bob - gains.cyd) < 1e-9 || Math.abs(Math.max(gains.bob, gains.cyd)) < 1e-9)
          return true;
        const best = gains.bob > gains.cyd ? 'bob' : 'cyd';
        return gains[best] > 0 ? slots[1] === `answer/${best}` : slots.length === 1;
      },
    ),
    { numRuns: 200 },
  );
});
