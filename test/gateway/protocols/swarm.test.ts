import fc from 'fast-check';
import t from 'tap';
import type { Call } from '../../../src/contract/call.ts';
import type { Member } from '../../../src/contract/plan.ts';
import { optionsFor } from '../../../src/gateway/catalog.ts';
import type { Options } from '../../../src/gateway/protocols/protocol.ts';
import { swarm } from '../../../src/gateway/protocols/swarm.ts';
import {
  depthOf,
  treeOf,
  treeProblem,
  type StoredTree,
  type TreeNode,
} from '../../../src/gateway/protocols/tree.ts';
import { Cast, NAMES, performPlan, planOf, type Act } from '../../support/cast.ts';

const speaking = ({ slot }: Call): Act => ({ words: [`I am ${slot}. The final answer is 16.`] });
const run = (given: Options, positions: number[], script = speaking) => {
  const cast = new Cast(script);
  const plan = planOf(swarm, optionsFor(swarm, given), positions);
  return performPlan(swarm, cast, plan).then(({ outcome }) => ({ cast, outcome }));
};
const failing = (slots: readonly string[]) => (call: Call) =>
  slots.includes(call.slot) ? ({ fail: 'upstream_status' } as const) : speaking(call);
const readsOf = (cast: Cast, slot: string) => cast.seen.find(({ call }) => call.slot === slot)?.call.reads;

/** eve reads cyd and dan; cyd reads ada and bob. */
const tree: StoredTree = { ada: 'cyd', bob: 'cyd', cyd: 'eve', dan: 'eve', eve: null };

const team = NAMES.map((alias) => ({ alias }) as Member);
/** Trees over some of the names, from random parents among those placed before. */
const trees = fc
  .tuple(
    fc.shuffledSubarray([...NAMES], { minLength: 1 }),
    fc.array(fc.nat(), { minLength: 5, maxLength: 5 }),
  )
  .map(([names, draws]) =>
    Object.fromEntries(names.map((name, i) => [name, i === 0 ? null : names[draws[i]! % i]!])),
  );
const coalitions = fc.subarray(team, { minLength: 1 });
const nodesOf = (node: TreeNode): string[] => [node.member.alias, ...node.reads.flatMap(nodesOf)];

void t.test('each reads those before it, and the last one speaks', async (t) => {
  const { cast, outcome } = await run({ tree }, [0, 1, 2, 3, 4]);
  t.strictSame(cast.slots().toSorted(), [
    'level-1/ada',
    'level-1/bob',
    'level-1/dan',
    'level-2/cyd',
    'level-3/eve',
  ]);
  t.strictSame(readsOf(cast, 'level-2/cyd'), ['level-1/ada', 'level-1/bob']);
  t.strictSame(readsOf(cast, 'level-3/eve'), ['level-2/cyd', 'level-1/dan']);
  t.equal(cast.path, 3);
  t.match(outcome, { answer: /level-3\/eve/, answerFrom: ['eve', 'cyd', 'dan'] });
});

void t.test('who is absent is taken out, and read through', async (t) => {
  const { cast } = await run({ tree }, [0, 1, 3, 4]);
  t.strictSame(readsOf(cast, 'level-2/eve'), ['level-1/ada', 'level-1/bob', 'level-1/dan']);
  const headless = await run({ tree }, [0, 1, 2, 3]);
  t.strictSame(
    readsOf(headless.cast, 'level-2/cyd'),
    ['level-1/ada', 'level-1/bob', 'level-1/dan'],
    'its part is larger',
  );
  const even = await run({ tree }, [1, 3]);
  t.strictSame(readsOf(even.cast, 'level-2/bob'), ['level-1/dan'], 'of several the first');
});

void t.test('without a tree the first reads all others', async (t) => {
  const { cast } = await run({}, [1, 2, 4]);
  t.strictSame(readsOf(cast, 'level-2/bob'), ['level-1/cyd', 'level-1/eve']);
});

void t.test('what a failing member would have written is replaced by what it had read', async (t) => {
  const { cast, outcome } = await run({ tree }, [0, 1, 2, 3, 4], failing(['level-2/cyd']));
  t.strictSame(readsOf(cast, 'level-3/eve'), ['level-1/ada', 'level-1/bob', 'level-1/dan']);
  t.equal(outcome.status, 'ok');
});

void t.test(
  'should the last fail, the next speaks having read the same, and then what was read stands',
  async (t) => {
    const next = await run({ tree }, [0, 1, 2, 3, 4], failing(['level-3/eve']));
    t.match(next.outcome, { status: 'ok', answer: /level-3\/ada/ });
    t.strictSame(readsOf(next.cast, 'level-3/ada'), ['level-2/cyd', 'level-1/dan']);
    const all = ['ada', 'bob', 'cyd', 'dan', 'eve'].map((alias) => `level-3/${alias}`);
    const none = await run({ tree }, [0, 1, 2, 3, 4], failing(all));
    t.match(none.outcome, { status: 'ok', answer: /level-2\/cyd/ });
  },
);

void t.test('the tree of a coalition has each of it once, and keeps who comes before whom', (t) => {
  fc.assert(
    fc.property(trees, coalitions, (stored, members) => {
      const whole = treeOf(stored, members);
      const present = members.map(({ alias }) => alias);
      if (nodesOf(whole).toSorted().join() !== present.toSorted().join()) return false;
      const below = (node: TreeNode): boolean =>
        node.reads.every((child) => {
          // Whoever is read was before its reader in the stored tree, or neither of them has a reader in it.
          let at = stored[child.member.alias];
          while (typeof at === 'string' && !present.includes(at)) at = stored[at];
          const isKept = at === node.member.alias || (typeof at !== 'string' && node === whole);
          return isKept && below(child);
        });
      return below(whole);
    }),
  );
  t.end();
});

void t.test('no coalition takes a longer way than described', (t) => {
  fc.assert(
    fc.property(trees, coalitions, (stored, members) => {
      const { path } = swarm.describe(optionsFor(swarm, { tree: stored }), members.length);
      return depthOf(treeOf(stored, members)) <= path;
    }),
  );
  t.end();
});

void t.test('what is no tree is refused, naming what is wrong', (t) => {
  t.equal(treeProblem(tree), undefined);
  const wrong: [StoredTree, RegExp][] = [
    [{ ada: 'bob', bob: 'ada' }, /nobody reads \(null\), and has 0/],
    [{ ada: null, bob: null }, /has 2/],
    [{ ada: null, bob: 'cyd', cyd: 'bob' }, /does not lead from bob to ada/],
    [{ ada: null, bob: 'zoe' }, /does not lead from bob to ada/],
  ];
  for (const [bad, pattern] of wrong) {
    t.match(treeProblem(bad), pattern);
    t.throws(() => optionsFor(swarm, { tree: bad }), {
      code: 'option_invalid',
      param: 'consort.options.tree',
      message: pattern,
    });
  }
  t.end();
});
