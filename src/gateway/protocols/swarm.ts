/**
 * swarm: members stand in a stored tree; each reads those before it, and the last one speaks.
 *
 * Source: Heterogeneous Swarms (Feng et al. 2025, arXiv 2502.04510), whose optimised graph is stored as it was decoded
 * instead of being drawn anew each time, so that what runs is what was chosen. Cost: n calls, path the depth of the tree
 * (2 without `tree`, when all are read by the first of the pool). Nodes that do not wait for each other run side by
 * side. Coalition: who is absent is taken out, and those whom it would have read are read by its reader; without the
 * last, the member with the largest part of what is left speaks. A coalition of one is a plain call. A member that fails
 * is absent likewise; should the last fail before its first word, the next in the pool's order speaks, having read the
 * same, and when nobody can, what was read last stands. Loses when an error early in a long way is believed by all who
 * come after.
 */
import Type, { type Static } from 'typebox';
import type { Call } from '../../contract/call.ts';
import type { Member } from '../../contract/plan.ts';
import type { Task } from '../../contract/task.ts';
import {
  askInto,
  callOf,
  isConstrained,
  Round,
  speak,
  speakersOf,
  wholeAnswer,
  type Asking,
  type Contribution,
} from './ask-all.ts';
import { MemberAlias, byAlias } from './member-options.ts';
import { peersBlock, withUserText } from './peers.ts';
import { defineProtocol, type ProtocolContext } from './protocol.ts';
import { revisionCall } from './revision.ts';
import { roomFor } from './room.ts';
import { answerAlone } from './single.ts';
import { drawnTree, treeKey, treesNextTo } from './tree-moves.ts';
import { depthOf, storedOf, treeOf, treeProblem, type StoredTree, type TreeNode } from './tree.ts';

const CONTINUE =
  'Use what is right in them and leave out what is wrong. Give an answer of your own, in the form that the request ' +
  'asks for.';

const SwarmOptions = Type.Object(
  {
    tree: byAlias(Type.Union([MemberAlias, Type.Null()]), {
      default: {},
      description:
        'By alias, the alias that reads it, and null for the one that speaks; `consort fit` finds one. Who is not ' +
        'named is read by the one that speaks, and without a tree that is the first of the pool.',
    }),
  },
  { additionalProperties: false },
);
type SwarmOptions = Static<typeof SwarmOptions>;

/** What is asked of a node: its level is that of the longest way to it, from 1. */
interface Turn extends Pick<Asking, 'canReachClient' | 'speaks' | 'tools'> {
  readonly level: number;
}

/** What a member is asked, having read these texts. */
function turnOf(
  task: Task,
  member: Member,
  read: readonly Contribution[],
  { level, ...asking }: Turn,
  { random }: ProtocolContext,
): Call {
  const slot = `level-${level}/${member.alias}`;
  const own = read.find((one) => one.member === member);
  const shown = read.filter((one) => one !== own);
  if (own && shown.length > 0) {
    return revisionCall(task, { ...asking, slot, own, shown, instruction: CONTINUE }, random);
  }
  const plain = { ...asking, slot, purpose: 'answer', messages: task.messages } as const;
  if (shown.length === 0) return callOf(task, member, plain);
  const room = roomFor(member, task.messages, task.sampling);
  const block = peersBlock(shown, { instruction: CONTINUE, random, room });
  const reads = shown.map((one) => one.slot);
  return callOf(task, member, {
    ...plain,
    purpose: 'revise',
    messages: withUserText(task.messages, block),
    reads,
  });
}

/** What a node hands on: its own text, or, when it fails, what it has read. */
async function handedOn(
  task: Task,
  node: TreeNode,
  context: ProtocolContext,
  round: Round,
): Promise<readonly Contribution[]> {
  const { member, reads } = node;
  const read = await gathered(task, reads, context, round);
  if (round.absences.length > 0 && context.left().calls === 0) return read;
  const turn = { level: depthOf(node), canReachClient: false };
  const call = turnOf(task, member, read, turn, context);
  const own = await askInto([call], context, round);
  return own.length > 0 ? own : read;
}

async function gathered(
  task: Task,
  nodes: readonly TreeNode[],
  context: ProtocolContext,
  round: Round,
): Promise<readonly Contribution[]> {
  const texts = await Promise.all(nodes.map((node) => handedOn(task, node, context, round)));
  return texts.flat();
}

/** Whether there is a tree at all; without one the first of the pool reads all others. */
function depthWith(tree: StoredTree, members: number): number {
  const last = Object.keys(tree).find((alias) => tree[alias] === null);
  if (last === undefined) return Math.min(2, members);
  const team = Object.keys(tree).map((alias) => ({ alias }) as Member);
  // Others are read by the last.
  return Math.min(members, Math.max(depthOf(treeOf(tree, team)), 2));
}

/** The tree that the members of a pool stand in, each of them named. */
function wholeTree(tree: StoredTree, aliases: readonly string[]): StoredTree {
  const [first = ''] = aliases;
  const stored = Object.keys(tree).length > 0 ? tree : { [first]: null };
  const team = aliases.map((alias) => ({ alias }) as Member);
  return storedOf(treeOf(stored, team));
}

export const swarm = defineProtocol<SwarmOptions>({
  name: 'swarm',
  version: 1,
  summary: 'Members stand in a stored tree; each reads those before it, and the last one speaks.',
  source: 'Heterogeneous Swarms, arXiv 2502.04510',
  options: SwarmOptions,
  streams: true,
  tools: true,
  reuse: 'D',
  symmetric: () => false,
  problem: ({ tree }) => {
    const wrong = Object.keys(tree).length > 0 ? treeProblem(tree) : undefined;
    return wrong === undefined ? undefined : { option: 'tree', wrong };
  },
  search: {
    start: (options, aliases) => ({ ...options, tree: wholeTree(options.tree, aliases) }),
    nextTo: (options) => treesNextTo(options.tree).map((tree) => ({ ...options, tree })),
    draw: (options, random) => ({ ...options, tree: drawnTree(Object.keys(options.tree), random) }),
    keyOf: ({ tree }) => treeKey(tree),
  },
  describe: ({ tree }, members) => ({
    calls: members,
    path: depthWith(tree, members),
    widest: Math.max(1, members - 1),
  }),
  async *run(task, team, { tree }, context) {
    const [first] = team;
    if (team.length === 1 || !first) return yield* answerAlone(task, team, context);
    const stored = Object.keys(tree).length > 0 ? tree : { [first.alias]: null };
    const round = new Round();
    const last = treeOf(stored, team);
    const read = await gathered(task, last.reads, context, round);
    const failed = new Set(round.absences.map(({ member }) => member));
    const others = team.filter((member) => member !== last.member);
    const order = speakersOf([last.member, ...others], task).filter((member) => !failed.has(member));
    const asking = { level: depthOf(last), canReachClient: true, speaks: true, tools: true };
    const spoken = (member: Member) => turnOf(task, member, read, asking, context);
    const answer = yield* speak(order, spoken, context, round);
    const aliases = read.map(({ member }) => member.alias);
    if (answer) return { ...answer, from: [...new Set([...answer.from, ...aliases])] };
    const [best] = read;
    if (!best || isConstrained(task)) throw round.failure();
    return yield* wholeAnswer(best.slot, best.answer);
  },
});
