import fc from 'fast-check';
import t from 'tap';
import { textOf } from '../../../src/contract/chat.ts';
import type { Call } from '../../../src/contract/call.ts';
import { optionsFor } from '../../../src/gateway/catalog.ts';
import type { Options } from '../../../src/gateway/protocols/protocol.ts';
import { rankFuse } from '../../../src/gateway/protocols/rank-fuse.ts';
import { Cast, labelling, performPlan, planOf, type Act } from '../../support/cast.ts';

const stating = ({ slot, member }: Call): Act => ({
  words: [`I am ${slot}. The final answer is ${member.alias.charCodeAt(0)}.`],
});
type Pick = (labels: readonly string[], call: Call) => string | undefined;
const run = (given: Options, positions: number[], pick: Pick, script: (call: Call) => Act = stating) => {
  const cast = new Cast(labelling(script, pick));
  const plan = planOf(rankFuse, optionsFor(rankFuse, given), positions);
  return performPlan(rankFuse, cast, plan).then(({ outcome }) => ({ cast, outcome }));
};
const fusion = (cast: Cast) => cast.seen.find(({ call }) => call.purpose === 'fuse')?.call;
const readBy = (cast: Cast) => fusion(cast)?.reads.map((slot) => slot.split('/')[1]);
/** The two of a comparison, in the order in which they are shown. */
const pairOf = ({ slot }: Call) => slot.split('/').slice(2) as [string, string];
/** The ranker of a test prefers whoever comes first in this list. */
const preferring =
  (...best: string[]): Pick =>
  ([first, second], call) => {
    const [one, other] = pairOf(call).map((alias) => best.indexOf(alias));
    return one! < other! ? first : second;
  };

void t.test('the fuser reads the best, best first', async (t) => {
  const order = ['dan', 'ada', 'cyd', 'bob'];
  const { cast, outcome } = await run({}, [0, 1, 2, 3], preferring(...order));
  t.strictSame(readBy(cast), ['dan', 'ada', 'cyd'], 'three by default');
  const shown = textOf(fusion(cast)!.messages.at(-1)!).match(/draft\/\w+/g);
  t.strictSame(shown, ['draft/dan', 'draft/ada', 'draft/cyd'], 'in this order');
  t.match(outcome, { status: 'ok', answer: /fuse\/ada/ });
  const { cast: one } = await run({ topK: 1, fusers: ['bob'] }, [0, 1, 2, 3], preferring(...order));
  t.strictSame(readBy(one), ['dan']);
  t.equal(fusion(one)?.slot, 'fuse/bob');
});

void t.test(
  'each pair is shown in both orders, so that a ranker with a favourite place decides nothing',
  async (t) => {
    for (const place of [0, 1]) {
      const { cast } = await run({ topK: 4 }, [3, 1, 2], (labels) => labels[place]);
      t.strictSame(readBy(cast), ['dan', 'bob', 'cyd'], 'all tie, and the pool’s order is left');
      const compared = cast.seen
        .filter(({ call }) => call.purpose === 'judge')
        .map(({ call }) => pairOf(call).join());
      t.equal(new Set(compared).size, 6);
      for (const { call } of cast.seen.filter((one) => one.call.purpose === 'judge')) {
        const shown = textOf(call.messages.at(-1)!).match(/draft\/(\w+)/g);
        t.strictSame(
          shown,
          pairOf(call).map((alias) => `draft/${alias}`),
        );
      }
    }
  },
);

void t.test('the order is that of the wins, whatever the ranker prefers', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.boolean(), { minLength: 6, maxLength: 6 }), async (verdicts) => {
      const names = ['ada', 'bob', 'cyd', 'dan'];
      const pairs = names.flatMap((a, i) => names.slice(i + 1).map((b) => `${a},${b}`));
      const beats = (a: string, b: string) => {
        const at = pairs.indexOf(`${a},${b}`);
        return at >= 0 ? verdicts[at]! : !verdicts[pairs.indexOf(`${b},${a}`)]!;
      };
      const { cast } = await run({ topK: 4 }, [0, 1, 2, 3], ([first, second], call) => {
        const [a, b] = pairOf(call);
        return beats(a, b) ? first : second;
      });
      const wins = (a: string) => names.filter((b) => b !== a && beats(a, b)).length;
      const expected = names.toSorted((a, b) => wins(b) - wins(a));
      return readBy(cast)!.join() === expected.join();
    }),
    { numRuns: 64 },
  );
});

void t.test('where probabilities are told a small preference counts as one', async (t) => {
  const telling = (call: Call): Act => {
    if (!call.choose) return stating(call);
    const [one, other] = pairOf(call);
    // The words always name the first; the probabilities lean to bob, in either place.
    const first = one === 'bob' ? 0.8 : other === 'bob' ? 0.55 : 0.7;
    const tops = [
      { token: '1', logprob: Math.log(first) },
      { token: '2', logprob: Math.log(1 - first) },
    ];
    return { words: ['1'], more: { logprobs: [{ ...tops[0]!, top_logprobs: tops }] } };
  };
  const { cast } = await run({}, [0, 1, 2], ([first]) => first, telling);
  t.strictSame(readBy(cast), ['bob', 'ada', 'cyd']);
});

void t.test('those who state the same are one candidate, and when all do nobody compares', async (t) => {
  const same = (call: Call): Act =>
    call.member.alias === 'ada' ? stating(call) : { words: [`I am ${call.slot}. The final answer is 7.`] };
  const { cast } = await run({}, [0, 1, 2], () => 'neither', same);
  t.equal(cast.seen.filter(({ call }) => call.purpose === 'judge').length, 2);
  t.strictSame(readBy(cast), ['bob', 'ada'], 'a tie goes to what more members say');
  const all = await run({}, [1, 2], preferring('bob'), same);
  t.strictSame(all.cast.slots(), ['draft/bob', 'draft/cyd']);
  t.match(all.outcome, { status: 'ok', answer: /draft\/bob/ });
});

void t.test(
  'a ranker that fails is replaced for what it did not say, and the best stands when nobody can fuse',
  async (t) => {
    const failing = (slots: string[]) => (call: Call) =>
      slots.some((slot) => call.slot.startsWith(slot))
        ? ({ fail: 'upstream_status' } as const)
        : stating(call);
    const best = preferring('cyd', 'bob', 'ada');
    const some = await run({}, [0, 1, 2], best, failing(['compare/ada/bob']));
    t.strictSame(readBy(some.cast), ['cyd', 'bob', 'ada']);
    t.equal(some.cast.slots().filter((slot) => slot.startsWith('compare/bob')).length, 2);
    t.equal(fusion(some.cast)?.slot, 'fuse/bob', 'who failed does not fuse');
    const none = await run({}, [0, 1, 2], best, failing(['fuse']));
    t.match(none.outcome, { status: 'ok', answer: /draft\/cyd/ });
  },
);

void t.test(
  'verdicts on a pair are shared by the coalitions, and so is a fusion of the same best',
  async (t) => {
    const share = new Map();
    const cast = new Cast(labelling(stating, preferring('ada', 'bob', 'cyd', 'dan')));
    // The ranker and the fuser are the same in all that have ada.
    for (const positions of [
      [0, 1],
      [0, 2],
      [0, 3],
      [0, 1, 2],
      [0, 1, 3],
      [0, 2, 3],
      [0, 1, 2, 3],
    ]) {
      const plan = planOf(rankFuse, optionsFor(rankFuse, { topK: 2 }), positions);
      await performPlan(rankFuse, cast, plan, { stream: false, share });
    }
    const count = (purpose: string) => cast.seen.filter(({ call }) => call.purpose === purpose).length;
    t.equal(count('answer'), 4);
    t.equal(count('judge'), 12, 'n·(n−1)');
    t.equal(count('fuse'), 3, 'of ada and bob, ada and cyd, ada and dan');
  },
);
