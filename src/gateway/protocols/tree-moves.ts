/** What a search of trees walks through: the trees next to one, and a tree by chance. All are over the same members. */
import type { Random } from '../../contract/capabilities.ts';
import type { StoredTree } from './tree.ts';

/** Whether the member reads the other, directly or through those between them, or is the other. */
function isAbove(tree: StoredTree, alias: string, other: string): boolean {
  let at: string | null | undefined = other;
  while (typeof at === 'string' && at !== alias) at = tree[at];
  return at === alias;
}

/** The member and whoever reads it change places, and with that what they read. */
function swapped(tree: StoredTree, alias: string, reader: string): StoredTree {
  const inPlaceOf = (one: string) => (one === alias ? reader : one === reader ? alias : one);
  const entries = Object.keys(tree).map((one) => {
    const at = tree[inPlaceOf(one)];
    return [one, typeof at === 'string' ? inPlaceOf(at) : null] as const;
  });
  return Object.fromEntries(entries);
}

/**
 * The trees one move away: a member, with all that it reads, is read by somebody else, or it changes places with its
 * reader. From each tree these lead to each other one.
 *
 * @param tree one without fault (`treeProblem`)
 */
export function treesNextTo(tree: StoredTree): StoredTree[] {
  return Object.entries(tree).flatMap(([alias, reader]) => {
    if (reader === null) return [];
    const others = Object.keys(tree).filter((other) => other !== reader && !isAbove(tree, alias, other));
    const moved = others.map((other) => ({ ...tree, [alias]: other }));
    return [...moved, swapped(tree, alias, reader)];
  });
}

/** Members in an order by chance, each read by one of those before it: every tree can come of it, flat ones more often. */
export function drawnTree(aliases: readonly string[], random: Random): StoredTree {
  const order = aliases
    .map((alias) => ({ alias, key: random(`place/${alias}`) }))
    .toSorted((a, b) => a.key - b.key)
    .map(({ alias }) => alias);
  const readerOf = (index: number) => order[Math.floor(random(`reader/${order[index]}`) * index)] ?? null;
  return Object.fromEntries(order.map((alias, index) => [alias, index === 0 ? null : readerOf(index)]));
}

/** The same for the same tree, however its members are listed. */
export function treeKey(tree: StoredTree): string {
  const aliases = Object.keys(tree).toSorted();
  return JSON.stringify(aliases.map((alias) => [alias, tree[alias]]));
}
