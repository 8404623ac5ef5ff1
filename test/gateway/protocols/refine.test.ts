import t from 'tap';
import { textOf } from '../../../src/contract/chat.ts';
import type { Call } from '../../../src/contract/call.ts';
import { optionsFor } from '../../../src/gateway/catalog.ts';
import type { Options } from '../../../src/gateway/protocols/protocol.ts';
import { refine } from '../../../src/gateway/protocols/refine.ts';
import { Cast, performPlan, planOf, type Act } from '../../support/cast.ts';

const speaking = ({ slot }: Call): Act => ({ words: [`I am ${slot}. The final answer is 16.`] });
const run = (given: Options, positions: number[], script = speaking, calls = 100) => {
  const cast = new Cast(script);
  const budget = { calls, costMicros: null, deadlineMs: 20_000 };
  const plan = planOf(refine, optionsFor(refine, given), positions, { budget });
  return performPlan(refine, cast, plan).then(({ outcome }) => ({ cast, outcome }));
};
const failing = (slots: readonly string[]) => (call: Call) =>
  slots.includes(call.slot) ? ({ fail: 'upstream_status' } as const) : speaking(call);

void t.test('a member knows its own answer and reads the others’, of the round before alone', async (t) => {
  const { cast } = await run({ rounds: 3 }, [0, 1, 2]);
  const { call } = cast.seen.find((one) => one.call.slot === 'round-3/bob')!;
  t.strictSame(call.reads, ['round-2/bob', 'round-2/ada', 'round-2/cyd']);
  t.equal(call.messages.at(-2)?.role, 'assistant');
  t.match(textOf(call.messages.at(-2)!), 'I am round-2/bob');
  t.notMatch(textOf(call.messages.at(-1)!), 'round-2/bob');
  t.notMatch(JSON.stringify(call.messages), 'round-1');
});

void t.test('the summariser reads all last answers, and is who the options prefer', async (t) => {
  const { cast, outcome } = await run({ summarisers: ['eve', 'cyd'] }, [0, 1, 2]);
  const { call } = cast.seen.at(-1)!;
  t.equal(call.slot, 'conclude/cyd');
  t.strictSame(call.reads, ['round-2/ada', 'round-2/bob', 'round-2/cyd']);
  t.strictSame(outcome.answerFrom, ['cyd', 'ada', 'bob']);
});

void t.test(
  'who fails is out of the later rounds, and a round that fails whole counts for nothing',
  async (t) => {
    const out = await run({ rounds: 3 }, [0, 1, 2], failing(['round-2/bob']));
    t.notOk(out.cast.slots().some((slot) => slot === 'round-3/bob'));
    t.strictSame(out.cast.seen.at(-1)?.call.reads, ['round-3/ada', 'round-3/cyd']);
    const none = await run({}, [0, 1], failing(['round-2/ada', 'round-2/bob']));
    t.match(none.outcome, { status: 'ok', answer: /round-1\/ada/ });
  },
);

void t.test('a round that cannot be paid for besides the summariser is left out', async (t) => {
  for (const [calls, last] of [
    [7, 'round-2'],
    [6, 'round-1'],
  ] as const) {
    const { cast } = await run({}, [0, 1, 2], speaking, calls);
    t.strictSame(
      cast.seen.at(-1)?.call.reads,
      ['ada', 'bob', 'cyd'].map((alias) => `${last}/${alias}`),
    );
  }
});
