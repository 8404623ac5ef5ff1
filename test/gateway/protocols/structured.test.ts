import fc from 'fast-check';
import t from 'tap';
import { textOf } from '../../../src/contract/chat.ts';
import type { Call } from '../../../src/contract/call.ts';
import { optionsFor } from '../../../src/gateway/catalog.ts';
import type { Options } from '../../../src/gateway/protocols/protocol.ts';
import { structured } from '../../../src/gateway/protocols/structured.ts';
import { ancestors, TOPOLOGIES } from '../../../src/gateway/protocols/topology.ts';
import { Cast, performPlan, planOf, type Act } from '../../support/cast.ts';

const speaking = ({ slot }: Call): Act => ({ words: [`I am ${slot}. The final answer is 16.`] });
const run = (given: Options, positions: number[], script = speaking) => {
  const cast = new Cast(script);
  const plan = planOf(structured, optionsFor(structured, given), positions);
  return performPlan(structured, cast, plan).then(({ outcome, error }) => ({ cast, outcome, error }));
};
const without = (failing: readonly string[]) => (call: Call) =>
  failing.includes(call.slot) || failing.includes(call.member.alias)
    ? ({ fail: 'upstream_status' } as const)
    : speaking(call);

void t.test('the named graphs are what their names say', (t) => {
  t.strictSame(TOPOLOGIES.chain(4), [[1], [0, 2], [1, 3], [2]]);
  t.strictSame(TOPOLOGIES.tree(5), [[1, 2], [0, 3, 4], [0], [1], [1]]);
  t.strictSame(TOPOLOGIES.star(4), [[1, 2, 3], [0], [0], [0]], 'no wheel: the rim reads the hub alone');
  t.strictSame(TOPOLOGIES.circle(4), [
    [1, 3],
    [0, 2],
    [1, 3],
    [0, 2],
  ]);
  t.strictSame(TOPOLOGIES.complete(3), [
    [1, 2],
    [0, 2],
    [0, 1],
  ]);
  for (const graph of Object.values(TOPOLOGIES)) {
    t.strictSame(graph(1), [[]], 'one reads nobody, not even itself');
    t.strictSame(graph(2), [[1], [0]], 'two read each other, once');
  }
  t.end();
});

void t.test('whoever can reach the answerer in so many steps is its ancestor, and nobody else', (t) => {
  const graph = fc
    .integer({ min: 1, max: 7 })
    .chain((n) =>
      fc.array(fc.subarray(Array.from({ length: n }, (_, i) => i)), { minLength: n, maxLength: n }),
    );
  fc.assert(
    fc.property(graph, fc.nat(6), fc.nat(4), (reading, place, hops) => {
      const answerer = place % reading.length;
      // A walk back from the answerer of at most `hops` steps, by repeated products of the matrix.
      let reached = reading.map((_, node) => node === answerer);
      for (let hop = 0; hop < hops; hop++)
        reached = reached.map(
          (is, node) => is || reading.some((read, at) => reached[at] && read.includes(node)),
        );
      const expected = reached.flatMap((is, node) => (is ? [node] : []));
      return JSON.stringify(ancestors(reading, answerer, hops)) === JSON.stringify(expected);
    }),
  );
  t.end();
});

void t.test('only those who can still reach the answerer are asked', async (t) => {
  const { cast } = await run({ graph: 'chain', rounds: 3 }, [0, 1, 2, 3, 4]);
  // The end of a chain: three in the first round, two in the second, one in the last, instead of five in each.
  t.strictSame(cast.slots().toSorted(), [
    'round-1/ada',
    'round-1/bob',
    'round-1/cyd',
    'round-2/ada',
    'round-2/bob',
    'round-3/ada',
  ]);
});

void t.test('each reads its neighbours’ answers of the round before, beside its own', async (t) => {
  const { cast } = await run({ graph: 'circle', rounds: 3 }, [0, 1, 2, 3, 4]);
  const readsOf = (slot: string) => cast.seen.find(({ call }) => call.slot === slot)?.call.reads;
  t.strictSame(readsOf('round-2/bob'), ['round-1/bob', 'round-1/ada', 'round-1/cyd']);
  t.strictSame(readsOf('round-3/ada'), ['round-2/ada', 'round-2/bob', 'round-2/eve']);
  const last = cast.seen.at(-1)!.call;
  t.equal(last.messages.at(-2)?.role, 'assistant');
  t.match(textOf(last.messages.at(-2)!), 'I am round-2/ada', 'its own is its own turn');
});

void t.test(
  'a graph of one’s own is restricted to the coalition, and who reads nobody is asked once',
  async (t) => {
    const reads = { ada: ['bob'], bob: ['cyd'], cyd: [] };
    const all = await run({ reads, rounds: 3 }, [0, 1, 2, 3]);
    t.strictSame(all.cast.slots(), [
      'round-1/ada',
      'round-1/bob',
      'round-1/cyd',
      'round-2/ada',
      'round-2/bob',
      'round-3/ada',
    ]);
    t.strictSame(all.outcome.answerFrom, ['ada', 'bob', 'cyd'], 'whom nobody reads had no part');
    const cut = await run({ reads, rounds: 3 }, [0, 2, 3]);
    t.strictSame(cut.cast.slots(), ['round-1/ada'], 'without bob ada has nobody to read');
    t.ok(cut.cast.seen[0]?.call.speaks, 'so that it speaks at once');
  },
);

void t.test('without its hub a star has the next in order as its hub', async (t) => {
  const { cast } = await run({}, [1, 2, 4]);
  t.strictSame(cast.seen.at(-1)?.call.reads, ['round-1/bob', 'round-1/cyd', 'round-1/eve']);
});

void t.test('the graph is built anew without whoever fails', async (t) => {
  const middle = await run({ graph: 'chain', rounds: 3 }, [0, 1, 2], without(['bob']));
  t.strictSame(middle.cast.seen.at(-1)?.call.reads, ['round-2/ada', 'round-2/cyd'], 'now neighbours');
  const hub = await run({ rounds: 3 }, [0, 1, 2], without(['ada']));
  t.match(hub.outcome, { status: 'ok', answer: /round-3\/bob/, answerFrom: ['bob', 'cyd'] });
});

void t.test(
  'when the answerer fails at the end the next one answers, and then what they said before stands',
  async (t) => {
    const next = await run({}, [0, 1, 2], without(['round-2/ada']));
    t.match(next.outcome, { status: 'ok', answer: /round-2\/bob/ });
    const last = ['ada', 'bob', 'cyd'].map((alias) => `round-2/${alias}`);
    const none = await run({ graph: 'complete', answerers: ['bob'] }, [0, 1, 2], without(last));
    t.match(none.outcome, { status: 'ok', answer: /round-1\/bob/ });
    const rim = await run({ answerers: ['bob'] }, [0, 1, 2], without(last));
    t.match(rim.outcome, { status: 'ok', answer: /round-1\/cyd/ }, 'who was not needed before is asked then');
  },
);
