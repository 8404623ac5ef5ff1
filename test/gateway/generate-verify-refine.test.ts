import t from 'tap';
import type { Call } from '../../src/contract/call.ts';
import { textOf as contentOf } from '../../src/contract/chat.ts';
import { optionsFor } from '../../src/gateway/catalog.ts';
import { generateVerifyRefine } from '../../src/gateway/protocols/generate-verify-refine.ts';
import { streamsWith, type Options } from '../../src/gateway/protocols/protocol.ts';
import { Cast, performPlan, planOf, TASK, textOf, type Act } from '../support/cast.ts';

const TEAM = [0, 1, 2];
const ALL = { generators: ['ada'], verifiers: ['ada'], refiners: ['ada'] };

/** Every call says who says it, and states an answer. */
const state = (answer: string) => (call: Call) => ({
  words: [`I am ${call.slot}, `, `and the answer is ${answer}.`],
});

async function runWith(script: (call: Call) => Act, given: Options, positions = TEAM) {
  const cast = new Cast(script);
  const options = optionsFor(generateVerifyRefine, given);
  const ran = await performPlan(generateVerifyRefine, cast, planOf(generateVerifyRefine, options, positions));
  const promptOf = (slot: string) => {
    const messages = cast.seen
      .find(({ call }) => call.slot === slot)
      ?.call.messages.slice(TASK.messages.length - 1);
    return messages?.map((message) => ({ role: message.role, text: contentOf(message) })) ?? [];
  };
  return {
    slots: cast.slots(),
    from: ran.outcome.answerFrom,
    answer: ran.outcome.answer,
    parts: ran.parts,
    promptOf,
  };
}

t.test('the first answers and mends, the second checks', async (t) => {
  const { slots, from, promptOf } = await runWith(state('16'), { passes: 1 });
  t.strictSame(slots, ['generate/ada', 'verify/bob', 'refine/ada']);
  t.strictSame(from, ['ada']);
  const [checked] = promptOf('verify/bob');
  t.match(checked, { role: 'user', text: /I am generate\/ada, and the answer is 16\./ });
  const mended = promptOf('refine/ada');
  t.strictSame(
    mended.map(({ role }) => role),
    ['user', 'assistant', 'user'],
    'its own answer is its own turn',
  );
  t.equal(mended[1]?.text, 'I am generate/ada, and the answer is 16.');
  t.match(mended[2]?.text, 'I am verify/bob');
  t.notMatch(mended[2]?.text, 'generate/ada');
});

t.test('roles are filled from their lists, in the coalition', async (t) => {
  const given = { passes: 1, generators: ['eve', 'bob'], verifiers: ['cyd'], refiners: ['dan'] };
  const { slots, from, promptOf } = await runWith(state('16'), given);
  t.strictSame(slots, ['generate/bob', 'verify/cyd', 'refine/ada']);
  t.strictSame(from, ['ada', 'bob'], 'the words are the refiner’s and those that it mended');
  const [prompt, ...more] = promptOf('refine/ada');
  t.equal(more.length, 0);
  const text = prompt?.text ?? '';
  t.ok(text.indexOf('I am generate/bob') > 0);
  t.ok(
    text.indexOf('I am generate/bob') < text.indexOf('I am verify/cyd'),
    'first the answer, then its review',
  );
});

t.test('nobody checks its own answer, unless it is named for that', async (t) => {
  t.strictSame((await runWith(state('16'), { passes: 1, ...ALL })).slots, [
    'generate/ada',
    'verify/ada',
    'refine/ada',
  ]);
  t.strictSame((await runWith(state('16'), { passes: 1, generators: ['bob'] })).slots, [
    'generate/bob',
    'verify/ada',
    'refine/ada',
  ]);
  const { promptOf } = await runWith(state('16'), { passes: 1, ...ALL });
  const own = promptOf('verify/ada');
  t.strictSame(
    own.map(({ role }) => role),
    ['user', 'assistant', 'user'],
  );
  t.notMatch(own[2]?.text, /between the marks/);
});

t.test('several passes vote over the mended answers, the earliest in a tie', async (t) => {
  const rows: [string[], string[], string][] = [
    [['1', '1', '1'], ['5', '7', '7'], 'refine/ada/1'],
    [['9', '1', '1'], ['5', '7', '6'], 'refine/ada'],
    [['1', '1', '1'], ['7', '7', '7'], 'refine/ada'],
  ];
  for (const [first, mended, winner] of rows) {
    const script = (call: Call) => state((call.purpose === 'revise' ? mended : first)[call.sample]!)(call);
    const { answer, slots, parts } = await runWith(script, { passes: 3 });
    t.match(answer, `I am ${winner}, `);
    t.equal(slots.length, 9);
    t.equal(parts.filter(({ type }) => type === 'text-delta').length, 1);
  }
});

t.test('an answer that nobody checks or mends stands, and votes', async (t) => {
  const failing = (purpose: string, samples: readonly number[]) => (call: Call) =>
    call.purpose === purpose && samples.includes(call.sample)
      ? { fail: 'upstream_status' as const }
      : state(call.sample === 0 ? '5' : '7')(call);
  // With two members nobody is left to check once the one has failed.
  const unchecked = await runWith(failing('verify', [0]), { passes: 1 }, [0, 1]);
  t.strictSame(unchecked.slots, ['generate/ada', 'verify/bob']);
  t.match(unchecked.answer, 'I am generate/ada');
  const part = await runWith(failing('verify', [1]), { passes: 3 }, [0, 1]);
  t.notOk(part.slots.includes('refine/ada/1'));
  t.match(part.answer, 'I am generate/ada/1, and the answer is 7.', 'two say 7, the first of them as it was');
  const unmended = await runWith(failing('revise', [0, 1, 2]), { passes: 3 });
  t.match(unmended.answer, 'I am generate/ada/1, and the answer is 7.');
});

t.test('a pass that fails is made by the next member, the others stay', async (t) => {
  const { slots } = await runWith(
    (call) => (call.slot === 'generate/ada/1' ? { fail: 'upstream_status' } : state('16')(call)),
    { passes: 2 },
  );
  t.strictSame(slots, [
    'generate/ada',
    'generate/ada/1',
    'generate/bob/1',
    'verify/bob',
    'verify/cyd/1',
    'refine/bob',
    'refine/bob/1',
  ]);
});

t.test('a single pass streams, and several do not', async (t) => {
  for (const passes of [1, 2]) {
    const { parts, answer } = await runWith(state('16'), { passes });
    const streams = streamsWith(generateVerifyRefine, optionsFor(generateVerifyRefine, { passes }));
    t.equal(streams, passes === 1);
    t.equal(parts.filter(({ type }) => type === 'text-delta').length, streams ? 2 : 1);
    t.equal(textOf(parts), answer);
  }
});
