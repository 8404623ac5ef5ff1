import t from 'tap';
import { textOf } from '../../../src/contract/chat.ts';
import type { Call } from '../../../src/contract/call.ts';
import { optionsFor } from '../../../src/gateway/catalog.ts';
import { feedback } from '../../../src/gateway/protocols/feedback.ts';
import type { Options } from '../../../src/gateway/protocols/protocol.ts';
import { Cast, performPlan, planOf, type Act } from '../../support/cast.ts';

const speaking = ({ slot }: Call): Act => ({ words: [`I am ${slot}. The final answer is 16.`] });
const run = (given: Options, positions: number[], script = speaking, promptInstance = 'prompt') => {
  const cast = new Cast(script);
  const plan = planOf(feedback, optionsFor(feedback, given), positions, { promptInstance });
  return performPlan(feedback, cast, plan).then(({ outcome }) => ({ cast, outcome }));
};
const failing = (slots: readonly string[]) => (call: Call) =>
  slots.some((slot) => call.slot.startsWith(slot)) ? ({ fail: 'upstream_status' } as const) : speaking(call);
const criticsIn = (cast: Cast, author: string) =>
  cast.slots().filter((slot) => slot.startsWith('criticise-2/') && slot.endsWith(`/${author}`));

void t.test('a critic reads the one answer, and its author all remarks beside its own answer', async (t) => {
  const { cast } = await run({}, [0, 1, 2]);
  const of = (slot: string) => cast.seen.find(({ call }) => call.slot === slot)!.call;
  const critic = of('criticise-2/bob/ada');
  t.strictSame(critic.reads, ['round-1/ada']);
  t.notMatch(JSON.stringify(critic.messages), 'round-1/bob', 'and not even its own');
  const author = of('round-2/ada');
  t.strictSame(author.reads, ['round-1/ada', 'criticise-2/bob/ada', 'criticise-2/cyd/ada']);
  t.match(textOf(author.messages.at(-2)!), 'I am round-1/ada');
  t.notMatch(textOf(author.messages.at(-1)!), 'round-1/');
});

void t.test('who criticises is drawn by prompt, and an absence changes as little as it can', async (t) => {
  const first = new Map<string, number>();
  for (let prompt = 0; prompt < 60; prompt++) {
    const criticOf = async (positions: number[]) => {
      const { cast } = await run({ critics: 1 }, positions, speaking, `${prompt}`);
      t.equal(criticsIn(cast, 'ada').length, 1);
      return criticsIn(cast, 'ada')[0]?.split('/')[1] ?? '';
    };
    const critic = await criticOf([0, 1, 2, 3]);
    first.set(critic, (first.get(critic) ?? 0) + 1);
    if (critic !== 'dan')
      t.equal(await criticOf([0, 1, 2]), critic, 'the absence of another changes nothing');
  }
  for (const alias of ['bob', 'cyd', 'dan']) {
    const times = first.get(alias) ?? 0;
    // Binomial with n = 60 and p = 1/3: outside of 8 to 32 with probability below 10⁻³.
    t.ok(times >= 8 && times <= 32, `${alias} criticised ${times} times`);
  }
});

void t.test('an answer that nobody criticised stays as it was', async (t) => {
  const mute = ['criticise-2/bob', 'criticise-2/cyd'];
  const { cast, outcome } = await run({}, [0, 1, 2], failing(mute));
  t.notOk(cast.slots().includes('round-2/ada'), 'ada had no remarks');
  t.match(outcome, { status: 'ok', answer: /round-1\/ada/, answerFrom: ['ada'] }, 'who failed is out');
});

void t.test('a round that fails whole leaves the answers before it', async (t) => {
  const { cast, outcome } = await run(
    { rounds: 3 },
    [0, 1, 2],
    failing(['round-3/bob', 'round-3/cyd', 'round-3/ada']),
  );
  t.match(outcome, { status: 'ok', answer: /round-2\/ada/ });
  t.notOk(cast.slots().includes('conclude/ada'), 'all had failed');
});
