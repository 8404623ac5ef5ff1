import t from 'tap';
import { textOf } from '../../../src/contract/chat.ts';
import { optionsFor } from '../../../src/gateway/catalog.ts';
import { aggregate } from '../../../src/gateway/protocols/aggregate.ts';
import { Cast, performPlan, planOf } from '../../support/cast.ts';

const SLOTS = ['ada', 'ada/1', 'cyd', 'cyd/1'].map((slot) => `solution/${slot}`);

void t.test('the aggregator reads every sample of every member, in an order of the prompt', async (t) => {
  const options = optionsFor(aggregate, { samples: 2, aggregators: ['bob', 'cyd'] });
  const orders = new Set<string>();
  for (let prompt = 0; prompt < 20; prompt++) {
    const cast = new Cast(({ slot }) => ({ words: [`${slot}!`] }));
    const plan = planOf(aggregate, options, [0, 2], { promptInstance: `prompt-${prompt}` });
    const { outcome } = await performPlan(aggregate, cast, plan);
    const last = cast.seen.at(-1)?.call;
    t.equal(last?.slot, 'aggregate/cyd', 'bob is not in the coalition');
    t.strictSame(last?.reads, SLOTS);
    t.strictSame(outcome.answerFrom, ['cyd', 'ada']);
    const shown = [...textOf(last!.messages.at(-1)!).matchAll(/solution\/\S+(?=!)/g)].map(([slot]) => slot);
    t.strictSame(shown.toSorted(), SLOTS);
    orders.add(shown.join());
  }
  // Of 24 orders 20 prompts give fewer than 6 with probability below 10⁻⁶.
  t.ok(orders.size > 5, `${orders.size} orders`);
});

void t.test('one member with samples aggregates its own solutions', async (t) => {
  const cast = new Cast(({ slot }) => ({ words: [`${slot}!`] }));
  const options = optionsFor(aggregate, { samples: 3 });
  const { outcome } = await performPlan(aggregate, cast, planOf(aggregate, options, [1]));
  t.equal(outcome.answer, 'aggregate/bob!');
  t.equal(cast.seen.length, 4);
});
