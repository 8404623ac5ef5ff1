import t from 'tap';
import { textOf } from '../../../src/contract/chat.ts';
import type { Call } from '../../../src/contract/call.ts';
import type { Plan } from '../../../src/contract/plan.ts';
import { optionsFor } from '../../../src/gateway/catalog.ts';
import { blackboard } from '../../../src/gateway/protocols/blackboard.ts';
import type { Options } from '../../../src/gateway/protocols/protocol.ts';
import { Cast, labelling, performPlan, planOf, type Act } from '../../support/cast.ts';

const saying = ({ slot }: Call): Act => ({ words: [`I am ${slot}.`] });
type Pick = (labels: readonly string[], call: Call) => string | undefined;

async function run(
  given: Options,
  positions: number[],
  pick: Pick,
  more: Partial<Plan> = {},
  script: (call: Call) => Act = saying,
) {
  const cast = new Cast(labelling(script, pick));
  const { outcome } = await performPlan(
    blackboard,
    cast,
    planOf(blackboard, optionsFor(blackboard, given), positions, more),
  );
  return { cast, outcome, slots: cast.slots() };
}

const stage = (slot: string) => slot.split('/')[0];
const proposing: Pick = () => 'propose';

void t.test('one conclusion ends the work and is the answer', async (t) => {
  const { outcome, slots } = await run({}, [0, 1, 2], (_labels, { slot }) =>
    slot === 'act-2/bob' ? 'conclude' : 'execute',
  );
  t.match(outcome, { status: 'ok', answer: 'I am entry-2/bob.' });
  t.equal(outcome.answerFrom[0], 'bob');
  t.equal(slots.length, 12, 'two iterations, and no vote');
});

void t.test('fewer conclusions than must be do not end it, and are entries like the others', async (t) => {
  const { outcome, slots } = await run({ stopAt: 2, maxIterations: 2 }, [0, 1, 2], (_labels, { slot }) =>
    slot === 'act-1/bob' ? 'conclude' : 'execute',
  );
  t.equal(slots.at(-1), 'conclude/ada');
  t.match(outcome, { status: 'ok', answer: 'I am conclude/ada.' });
});

void t.test('at the cap the one who is named concludes from all that was posted', async (t) => {
  const { cast, outcome } = await run({ maxIterations: 2, concluders: ['cyd'] }, [0, 1, 2], proposing);
  const last = cast.seen.at(-1)?.call;
  t.equal(last?.slot, 'conclude/cyd');
  t.equal(last?.reads.length, 6);
  t.match(outcome, { status: 'ok', answer: 'I am conclude/cyd.' });
});

void t.test('agents of one iteration read the same board, by iteration and without labels', async (t) => {
  const { cast } = await run({ maxIterations: 3 }, [0, 1, 2], (labels) =>
    labels.includes('critique') ? 'critique' : 'propose',
  );
  const third = cast.seen.filter(({ call }) => stage(call.slot) === 'entry-3').map(({ call }) => call);
  t.equal(new Set(third.map(({ messages }) => textOf(messages.at(-1)!))).size, 1);
  const prompt = textOf(third[0]!.messages.at(-1)!);
  t.strictSame(
    prompt.match(/^Iteration \d, \w+:$/gm)?.map((line) => line.slice(10)),
    [1, 1, 1, 2, 2, 2].map((iteration) => `${iteration}, ${iteration === 1 ? 'propose' : 'critique'}:`),
  );
  t.notMatch(prompt, /act-\d/, 'what was chosen is not told, only what was posted');
  const first = cast.seen.filter(({ call }) => stage(call.slot) === 'act-1').map(({ call }) => call.choose);
  t.notOk(
    first.some((choose) => choose?.labels.includes('critique')),
    'an empty board is not criticised',
  );
});

void t.test('the most voted conclusion is the answer, wherever it is shown', async (t) => {
  const positions = new Set<string>();
  for (let prompt = 0; prompt < 20; prompt++) {
    const forCyd: Pick = (_labels, { purpose, messages }) => {
      if (purpose === 'act') return 'conclude';
      const shown = textOf(messages.at(-1)!);
      const number = /\] (\d)\nI am entry-1\/cyd/.exec(shown)?.[1];
      positions.add(number ?? '');
      return number;
    };
    const { outcome } = await run({}, [0, 1, 2], forCyd, { promptInstance: `prompt-${prompt}` });
    t.match(outcome, { status: 'ok', answer: 'I am entry-1/cyd.' });
  }
  t.strictSame([...positions].toSorted(), ['1', '2', '3'], 'the order of conclusions depends on the prompt');
});

void t.test('a tied vote goes by the declared rule, and prose is no vote', async (t) => {
  const winners = new Map<string, number>();
  for (let prompt = 0; prompt < 60; prompt++) {
    const tied: Pick = (labels, { purpose, member }) =>
      purpose === 'act' ? 'conclude' : labels[['ada', 'bob', 'cyd'].indexOf(member.alias)];
    const more = { promptInstance: `prompt-${prompt}` };
    const first = await run({}, [0, 1, 2], tied, more);
    t.equal(first.outcome.answer, 'I am entry-1/ada.');
    const drawn = await run({ ties: 'random' }, [0, 1, 2], tied, more);
    const winner = drawn.outcome.answerFrom[0] ?? '';
    winners.set(winner, (winners.get(winner) ?? 0) + 1);
  }
  for (const alias of ['ada', 'bob', 'cyd']) {
    const wins = winners.get(alias) ?? 0;
    // Binomial with n = 60 and p = 1/3: outside of 8 to 32 with probability below 10⁻³.
    t.ok(wins >= 8 && wins <= 32, `${alias} won ${wins} of 60`);
  }
  const prose: Pick = (_labels, { purpose }) => (purpose === 'act' ? 'conclude' : 'Number 3 is best');
  t.equal((await run({}, [0, 1, 2], prose)).outcome.answer, 'I am entry-1/ada.');
});

void t.test('agents are drawn by prompt and iteration', async (t) => {
  const drawn = new Map<string, number>();
  for (let prompt = 0; prompt < 30; prompt++) {
    const more = { promptInstance: `prompt-${prompt}` };
    const { cast } = await run({ agents: 2, maxIterations: 2 }, [0, 1, 2, 3], proposing, more);
    const acts = cast.seen.filter(({ call }) => call.purpose === 'act').map(({ call }) => call);
    t.equal(acts.length, 4);
    for (const { member } of acts) drawn.set(member.alias, (drawn.get(member.alias) ?? 0) + 1);
  }
  for (const alias of ['ada', 'bob', 'cyd', 'dan']) {
    const times = drawn.get(alias) ?? 0;
    // 60 independent draws of 2 of 4: binomial with p = 1/2, outside of 17 to 43 with probability below 10⁻³.
    t.ok(times >= 17 && times <= 43, `${alias} acted ${times} times of 60`);
  }
});

void t.test('when calls do not suffice for one more iteration, somebody concludes', async (t) => {
  const budget = { calls: 12, costMicros: null, deadlineMs: 20_000 };
  const { slots, outcome } = await run({ maxIterations: 9 }, [0, 1, 2], proposing, { budget });
  t.strictSame([slots.length, slots.at(-1)], [7, 'conclude/ada'], 'six more and the conclusion are 13');
  t.match(outcome, { status: 'ok', answer: 'I am conclude/ada.' });
});

void t.test('a conclusion that did not suffice is the best so far at the deadline', async (t) => {
  const budget = { calls: 100, costMicros: null, deadlineMs: 60 };
  const { outcome } = await run(
    { stopAt: 2 },
    [0, 1, 2],
    (_labels, { slot }) => (slot === 'act-1/bob' ? 'conclude' : 'execute'),
    { budget },
    (call) => (stage(call.slot) === 'act-2' ? { hang: 'polite' } : saying(call)),
  );
  t.match(outcome, { status: 'ok', answer: 'I am entry-1/bob.', cutShort: 'deadline' });
});

void t.test('whoever is left alone concludes, from what others posted or plainly', async (t) => {
  const failingAt = (slots: string[]) => (call: Call) =>
    slots.includes(call.slot) ? ({ fail: 'upstream_status' } as const) : saying(call);
  const later = await run({}, [0, 1], proposing, {}, failingAt(['act-2/ada']));
  t.equal(later.slots.at(-1), 'conclude/bob');
  t.match(later.outcome, { status: 'ok', answer: 'I am conclude/bob.' });
  const atOnce = await run({}, [0, 1], proposing, {}, failingAt(['act-1/ada']));
  t.match(atOnce.outcome, { status: 'ok', answer: 'I am answer/bob.' });
});
