import t from 'tap';
import { textOf } from '../../../src/contract/chat.ts';
import type { Call } from '../../../src/contract/call.ts';
import { optionsFor } from '../../../src/gateway/catalog.ts';
import { mixture } from '../../../src/gateway/protocols/mixture.ts';
import { Cast, performPlan, planOf, type Act } from '../../support/cast.ts';

const saying = ({ slot }: Call): Act => ({ words: [`I am ${slot}, the final answer is 16.`] });

void t.test('a later layer reads every answer of the layer before, its own like the others', async (t) => {
  const cast = new Cast(saying);
  await performPlan(mixture, cast, planOf(mixture, optionsFor(mixture, { layers: 3 }), [0, 1, 2]));
  for (const { call } of cast.seen.filter(({ call }) => call.slot.startsWith('layer-3/'))) {
    t.strictSame(call.reads, ['layer-2/ada', 'layer-2/bob', 'layer-2/cyd']);
    t.notOk(
      call.messages.some(({ role }) => role === 'assistant'),
      'no answer is marked as its own',
    );
  }
  const second = cast.seen.filter(({ call }) => call.slot.startsWith('layer-2/'));
  const blocks = second.map(({ call }) => textOf(call.messages.at(-1)!));
  t.equal(new Set(blocks).size, 1, 'all read the same');
});

void t.test('the aggregator is the first of the option who is in the coalition', async (t) => {
  const options = optionsFor(mixture, { aggregators: ['eve', 'cyd'] });
  const cast = new Cast(saying);
  const { outcome } = await performPlan(mixture, cast, planOf(mixture, options, [0, 1, 2]));
  t.equal(cast.seen.at(-1)?.call.slot, 'aggregate/cyd');
  t.strictSame(outcome.answerFrom, ['cyd', 'ada', 'bob']);
});

void t.test('a layer that the budget cannot pay for, the aggregator included, is left out', async (t) => {
  const options = optionsFor(mixture, { layers: 3 });
  const cast = new Cast(saying);
  const budget = { calls: 9, costMicros: null, deadlineMs: 20_000 };
  const { outcome } = await performPlan(mixture, cast, planOf(mixture, options, [0, 1, 2], { budget }));
  t.equal(cast.seen.length, 7);
  t.match(outcome, { status: 'ok', answer: /aggregate\/ada/ });
});

void t.test(
  'whoever fails in a layer leaves those after it, and a layer that fails whole is undone',
  async (t) => {
    const options = optionsFor(mixture, { layers: 3 });
    const oneFails = new Cast((call) =>
      call.slot === 'layer-2/bob' ? { fail: 'upstream_status' } : saying(call),
    );
    await performPlan(mixture, oneFails, planOf(mixture, options, [0, 1, 2]));
    t.strictSame(oneFails.slots().slice(-3), ['layer-3/ada', 'layer-3/cyd', 'aggregate/ada']);
    const allFail = new Cast((call) =>
      call.slot.startsWith('layer-2') ? { fail: 'upstream_status' } : saying(call),
    );
    const { outcome } = await performPlan(mixture, allFail, planOf(mixture, options, [0, 1, 2]));
    t.match(outcome, { status: 'ok', answer: /layer-1\/ada/ });
  },
);
