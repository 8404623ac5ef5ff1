import t from 'tap';
import { textOf } from '../../../src/contract/chat.ts';
import type { Call } from '../../../src/contract/call.ts';
import { optionsFor } from '../../../src/gateway/catalog.ts';
import type { Options } from '../../../src/gateway/protocols/protocol.ts';
import { relay } from '../../../src/gateway/protocols/relay.ts';
import { Cast, performPlan, planOf, type Act } from '../../support/cast.ts';

const ANSWERS: Readonly<Record<string, string>> = { ada: '8', bob: '16', cyd: '16.0', dan: '9', eve: '9' };
const stating = ({ slot, member }: Call): Act => ({
  words: [`I am ${slot}. The final answer is ${ANSWERS[member.alias]}.`],
});
const run = (given: Options, positions: number[], script = stating, promptInstance = 'prompt') => {
  const cast = new Cast(script);
  const plan = planOf(relay, optionsFor(relay, given), positions, { promptInstance });
  return performPlan(relay, cast, plan).then(({ outcome }) => ({ cast, outcome }));
};

void t.test('it ends when two successive answers state the same, with the later one', async (t) => {
  const { cast, outcome } = await run({}, [0, 1, 2, 3]);
  t.strictSame(cast.slots(), ['turn-1/ada', 'turn-2/bob', 'turn-3/cyd']);
  t.match(outcome, { status: 'ok', answer: /turn-3\/cyd/, answerFrom: ['cyd', 'ada', 'bob'] });
  t.equal(outcome.earlyExit, undefined, 'it is no early exit: nobody was stopped');
});

void t.test('answers that state the same agree only when one follows the other', async (t) => {
  const { cast } = await run({ order: ['bob', 'ada', 'cyd'] }, [0, 1, 2]);
  t.equal(cast.seen.length, 3);
  const silent = (call: Call): Act => ({ words: [`I am ${call.slot}, and I do not know.`] });
  t.equal((await run({}, [0, 1, 2], silent)).cast.seen.length, 3, 'nothing read is no agreement');
});

void t.test('each reads all before it, in the order of their turns', async (t) => {
  const { cast } = await run({ order: ['eve', 'ada'], untilAgreement: false }, [0, 1, 2, 4]);
  const slots = ['turn-1/eve', 'turn-2/ada', 'turn-3/bob', 'turn-4/cyd'];
  t.strictSame(cast.slots(), slots);
  for (const [index, { call }] of cast.seen.entries()) {
    t.strictSame(call.reads, slots.slice(0, index));
    t.equal(call.speaks, index === 3, 'the last alone speaks');
    const shown = textOf(call.messages.at(-1)!).match(/turn-\d\/\w+/g) ?? [];
    t.strictSame(shown, slots.slice(0, index));
  }
});

void t.test('a seeded order is uniform over prompts, and in a coalition the same', async (t) => {
  const first = new Map<string, number>();
  for (let prompt = 0; prompt < 60; prompt++) {
    const orderOf = async (positions: number[]) => {
      const { cast } = await run({ order: 'seeded', untilAgreement: false }, positions, stating, `${prompt}`);
      return cast.seen.map(({ call }) => call.member.alias);
    };
    const all = await orderOf([0, 1, 2]);
    t.strictSame(
      await orderOf([0, 2]),
      all.filter((alias) => alias !== 'bob'),
    );
    first.set(all[0]!, (first.get(all[0]!) ?? 0) + 1);
  }
  for (const alias of ['ada', 'bob', 'cyd']) {
    const times = first.get(alias) ?? 0;
    // Binomial with n = 60 and p = 1/3: outside of 8 to 32 with probability below 10⁻³.
    t.ok(times >= 8 && times <= 32, `${alias} was first ${times} times`);
  }
});

void t.test('whoever fails is skipped, and the answer before a last one that fails stands', async (t) => {
  const without = (failing: string[]) => (call: Call) =>
    failing.includes(call.member.alias) ? ({ fail: 'upstream_status' } as const) : stating(call);
  const skipped = await run({ untilAgreement: false }, [0, 1, 3], without(['bob']));
  t.strictSame(skipped.cast.seen.at(-1)?.call.reads, ['turn-1/ada']);
  t.match(skipped.outcome, { status: 'ok', answer: /turn-2\/dan/ });
  const lastFails = await run({ untilAgreement: false }, [0, 1, 3], without(['dan']));
  t.match(lastFails.outcome, { status: 'ok', answer: /turn-2\/bob/, answerFrom: ['bob', 'ada'] });
});
