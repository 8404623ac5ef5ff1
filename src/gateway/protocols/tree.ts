/** An in-tree of members: each hands its text to one other, and all ways end in one. */
import type { Member } from '../../contract/plan.ts';

/** By alias, the alias that reads it; null for the last, whose text is the answer. */
export type StoredTree = Readonly<Record<string, string | null>>;

/** What is wrong with a stored tree, or undefined. */
export function treeProblem(tree: StoredTree): string | undefined {
  const aliases = Object.keys(tree);
  const last = aliases.filter((alias) => tree[alias] === null);
  if (last.length !== 1) return `must have one member that nobody reads (null), and has ${last.length}`;
  for (const alias of aliases) {
    let at: string | null | undefined = alias;
    for (let steps = 0; at !== null; steps++) {
      if (at === undefined || steps > aliases.length)
        return `does not lead from ${alias} to ${last.join('')}`;
      at = tree[at];
    }
  }
  return undefined;
}

export interface TreeNode {
  readonly member: Member;
  /** Whose texts it reads, in the coalition's order. */
  readonly reads: readonly TreeNode[];
}

/** The most nodes on a way to this one, itself included. */
export function depthOf({ reads }: TreeNode): number {
  return 1 + Math.max(0, ...reads.map(depthOf));
}

export function sizeOf({ reads }: TreeNode): number {
  return reads.reduce((sum, node) => sum + sizeOf(node), 1);
}

/**
 * The tree of a coalition: who is absent is taken out, and those whom it would have read are read by whoever would have
 * read it. Without the last, the member with the largest part of what is left takes its place, of several the first.
 *
 * @param team at least one; a member that the tree does not name is read by the last
 */
export function treeOf(tree: StoredTree, team: readonly Member[]): TreeNode {
  const byAlias = new Map(team.map((member) => [member.alias, member]));
  const readerOf = ({ alias }: Member): Member | undefined => {
    let at = tree[alias];
    while (typeof at === 'string' && !byAlias.has(at)) at = tree[at];
    return typeof at === 'string' ? byAlias.get(at) : undefined;
  };
  const readers = new Map(team.map((member) => [member, readerOf(member)]));
  const grow = (member: Member): TreeNode => {
    const reads = team.filter((other) => readers.get(other) === member).map(grow);
    return { member, reads };
  };
  const roots = team.filter((member) => !readers.get(member)).map(grow);
  const named = roots.find(({ member }) => tree[member.alias] === null);
  const last = named ?? roots.toSorted((a, b) => sizeOf(b) - sizeOf(a))[0];
  if (!last) throw new TypeError('a tree needs at least one member');
  const others = roots.filter((node) => node !== last);
  const place = ({ member }: TreeNode) => team.indexOf(member);
  return { member: last.member, reads: [...last.reads, ...others].toSorted((a, b) => place(a) - place(b)) };
}

/** As it is stored, each of its members named. */
export function storedOf(last: TreeNode): StoredTree {
  const entriesOf = (
    { member: { alias }, reads }: TreeNode,
    reader: string | null,
  ): [string, string | null][] => [[alias, reader], ...reads.flatMap((node) => entriesOf(node, alias))];
  return Object.fromEntries(entriesOf(last, null));
}
