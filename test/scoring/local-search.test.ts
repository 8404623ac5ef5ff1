import { createHash } from 'node:crypto';
import fc from 'fast-check';
import t from 'tap';
import type { Random } from '../../src/contract/capabilities.ts';
import { drawnTree, treeKey, treesNextTo } from '../../src/gateway/protocols/tree-moves.ts';
import { treeProblem, type StoredTree } from '../../src/gateway/protocols/tree.ts';
import { localSearch, type SearchSpace } from '../../src/scoring/local-search.ts';

const NAMES = ['ada', 'bob', 'cyd', 'dan', 'eve'];
const chance =
  (seed: number): Random =>
  (label) =>
    createHash('sha256').update(`${seed}/${label}`).digest().readUIntBE(0, 6) / 2 ** 48;
const starOf = (names: readonly string[]): StoredTree =>
  Object.fromEntries(names.map((name, index) => [name, index === 0 ? null : names[0]!]));
const spaceOf = (names: readonly string[]): SearchSpace<StoredTree> => ({
  start: starOf(names),
  nextTo: treesNextTo,
  draw: (random) => drawnTree(names, random),
  keyOf: treeKey,
});
/** All trees that moves lead to. */
function reached(start: StoredTree): Map<string, StoredTree> {
  const found = new Map([[treeKey(start), start]]);
  for (const tree of found.values()) for (const next of treesNextTo(tree)) found.set(treeKey(next), next);
  return found;
}
/** How many have the reader that they have in the best tree: a game whose one best tree is known. */
const likeness = (best: StoredTree) => (tree: StoredTree) =>
  Promise.resolve(Object.keys(best).filter((name) => best[name] === tree[name]).length / NAMES.length);

void t.test('moves lead to all trees of n members, nⁿ⁻¹ of them, and to nothing else', (t) => {
  for (const n of [1, 2, 3, 4, 5]) {
    const all = reached(starOf(NAMES.slice(0, n)));
    t.equal(all.size, n ** (n - 1));
    t.strictSame([...all.values()].map(treeProblem).filter(Boolean), []);
  }
  t.end();
});

void t.test('every tree can be drawn, and nothing else', (t) => {
  const names = NAMES.slice(0, 3);
  const drawn = new Map<string, number>();
  for (let seed = 0; seed < 900; seed++) {
    const tree = drawnTree(names, chance(seed));
    t.equal(treeProblem(tree), undefined);
    drawn.set(treeKey(tree), (drawn.get(treeKey(tree)) ?? 0) + 1);
  }
  // Six orders of three, each with two readers of the last: a chain comes of one of the twelve, a star of two.
  t.equal(drawn.size, 9);
  for (const [key, times] of drawn) {
    const isStar =
      new Set((JSON.parse(key) as [string, string | null][]).map(([, reader]) => reader)).size === 2;
    const expected = 900 * (isStar ? 1 / 6 : 1 / 12);
    // Five standard deviations of a binomial.
    t.ok(
      Math.abs(times - expected) < 5 * Math.sqrt(expected),
      `${key}: ${times} times, ${expected} expected`,
    );
  }
  t.end();
});

void t.test('it finds the known best of 625 trees, and far sooner than by looking at all', async (t) => {
  let looks = 0;
  let found = 0;
  for (let seed = 0; seed < 40; seed++) {
    const best = drawnTree(NAMES, chance(1000 + seed));
    const {
      best: tree,
      value,
      startValue,
      evaluations,
    } = await localSearch(spaceOf(NAMES), likeness(best), {
      evaluations: 150,
      random: chance(seed),
    });
    t.equal(startValue, await likeness(best)(starOf(NAMES)));
    t.equal(value, await likeness(best)(tree));
    if (treeKey(tree) === treeKey(best)) found++;
    looks += evaluations;
  }
  // By looking at 150 of 625 by chance it would be found in 10 of 40.
  t.ok(found >= 36, `found in ${found} of 40`);
  t.equal(looks, 40 * 150, 'it does not know that it has found the best');
});

void t.test('it looks at no tree twice, at no more than it may, and at all where it may', async (t) => {
  for (const [names, limit, looks] of [
    [NAMES, 30, 30],
    [NAMES.slice(0, 4), 64, 64],
    [NAMES.slice(0, 3), 100, 9],
    [NAMES.slice(0, 2), 100, 2],
    [NAMES.slice(0, 1), 100, 1],
    [NAMES, 1, 1],
  ] as const) {
    const seen: string[] = [];
    const evaluate = (tree: StoredTree) => {
      seen.push(treeKey(tree));
      return Promise.resolve(chance(7)(treeKey(tree)));
    };
    const found = await localSearch(spaceOf(names), evaluate, { evaluations: limit, random: chance(3) });
    t.equal(new Set(seen).size, seen.length);
    t.equal(seen.length, looks, `${names.length} members`);
    t.equal(found.evaluations, looks);
    const best = Math.max(...seen.map((key) => chance(7)(key)));
    t.equal(found.value, best);
  }
});

void t.test('the same chance gives the same walk, and nothing better leaves the start', async (t) => {
  const flat = await localSearch(spaceOf(NAMES), () => Promise.resolve(0.5), {
    evaluations: 40,
    random: chance(1),
  });
  t.strictSame(flat.best, starOf(NAMES));
  await fc.assert(
    fc.asyncProperty(fc.nat(), async (seed) => {
      const walks = await Promise.all(
        [0, 1].map(async () => {
          const seen: string[] = [];
          const evaluate = (tree: StoredTree) => {
            seen.push(treeKey(tree));
            return Promise.resolve(chance(seed)(treeKey(tree)));
          };
          await localSearch(spaceOf(NAMES), evaluate, { evaluations: 25, random: chance(seed) });
          return seen.join();
        }),
      );
      return walks[0] === walks[1];
    }),
    { numRuns: 20 },
  );
});
