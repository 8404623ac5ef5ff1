/**
 * structured: members answer, then each reads its neighbours on a graph and answers again; one's last answer counts.
 *
 * Source: structured interaction as in the MoCo toolkit (arXiv 2601.21257); the graphs are those of multi-agent topology
 * studies. In round t a member sees its own answer and its neighbours' of round t−1. Only what can still reach the
 * answerer is asked for: in the last round the answerer alone, before it those whom it reads, and so on, so that it
 * takes n·(rounds−1)+1 calls on a complete graph and fewer on a thin one. Path: rounds. Role: the answerer is the first
 * of `answerers` in the coalition, else the first member. Coalition: a named graph is built anew over its members in the
 * pool's order (the first is the hub of a star, the root of a tree, the end of a chain); `reads` is restricted to them.
 * A coalition of one is a plain call. A member that fails leaves the graph, which is built anew over the others; who has
 * nobody to read keeps its answer. Should the answerer fail, the next in its order answers, and when nobody can, the
 * latest answer of the first in that order that has one stands. Loses when a good answer has no way to the answerer
 * within the rounds, and where a thin graph lets errors travel as well as answers.
 */
import Type, { type Static } from 'typebox';
import type { Answer, Call } from '../../contract/call.ts';
import type { Part } from '../../contract/part.ts';
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
  type Contribution,
} from './ask-all.ts';
import { MemberAlias, aliasList, byAlias } from './member-options.ts';
import { defineProtocol, type ProtocolContext } from './protocol.ts';
import { revisionCall } from './revision.ts';
import { roleOrder } from './role-order.ts';
import { answerAlone } from './single.ts';
import { ancestors, TOPOLOGIES, type Reading } from './topology.ts';

const UPDATE =
  'Compare them with your own answer, then give your best answer now, in the form that the request asks for.';

const StructuredOptions = Type.Object(
  {
    rounds: Type.Integer({
      minimum: 2,
      maximum: 10,
      default: 2,
      description: 'Rounds, the first answers included.',
    }),
    graph: Type.Union(
      [
        Type.Literal('chain'),
        Type.Literal('tree'),
        Type.Literal('star'),
        Type.Literal('circle'),
        Type.Literal('complete'),
      ],
      {
        default: 'star',
        description: 'Who reads whom, over the coalition in the pool’s order; `reads` takes its place.',
      },
    ),
    reads: Type.Optional(
      byAlias(Type.Array(MemberAlias), {
        description: 'A graph of your own: whom each alias reads. Who is not named reads nobody.',
      }),
    ),
    answerers: aliasList('Aliases in order of preference for the answerer’s role; then the pool’s order.'),
  },
  { additionalProperties: false },
);
type StructuredOptions = Static<typeof StructuredOptions>;

function readingOf(team: readonly Member[], { graph, reads }: StructuredOptions): Reading {
  if (!reads) return TOPOLOGIES[graph](team.length);
  return team.map(({ alias }) =>
    team.flatMap((other, index) =>
      other.alias !== alias && (reads[alias] ?? []).includes(other.alias) ? [index] : [],
    ),
  );
}

function at(members: readonly Member[], nodes: readonly number[]): Member[] {
  return members.filter((_member, index) => nodes.includes(index));
}

/** A run's state: what each has said last, and who is still there. */
class Discussion {
  readonly round = new Round();
  readonly #latest = new Map<Member, Contribution>();
  readonly #team: readonly Member[];
  readonly #options: StructuredOptions;
  readonly #task: Task;

  constructor(task: Task, team: readonly Member[], options: StructuredOptions) {
    this.#task = task;
    this.#team = team;
    this.#options = options;
  }

  present(): Member[] {
    const gone = new Set(this.round.absences.map(({ member }) => member));
    return this.#team.filter((member) => !gone.has(member));
  }

  /** Who is to answer, and who next. */
  order(): readonly Member[] {
    return speakersOf(roleOrder(this.present(), this.#options.answerers), this.#task);
  }

  /** All answers, best first: those of the present before those of members that failed since. */
  standing(): Contribution[] {
    const others = roleOrder(this.#team, this.#options.answerers);
    return [...new Set([...this.order(), ...others])].flatMap((member) => this.own(member) ?? []);
  }

  own(member: Member): Contribution | undefined {
    return this.#latest.get(member);
  }

  /** The latest answers of those whom the member reads, without those who are gone. */
  read(member: Member): Contribution[] {
    const present = this.present();
    const nodes = readingOf(present, this.#options)[present.indexOf(member)] ?? [];
    return at(present, nodes).flatMap((other) => this.#latest.get(other) ?? []);
  }

  /** Whether the member has answered and has nobody to read, so that it would say the same. */
  hasNothingNew(member: Member): boolean {
    return this.own(member) !== undefined && this.read(member).length === 0;
  }

  /** Those whose answers in this round can still reach the answerer. */
  needed(turn: number): Member[] {
    const present = this.present();
    const [answerer] = this.order();
    if (!answerer) return [];
    const reading = readingOf(present, this.#options);
    return at(present, ancestors(reading, present.indexOf(answerer), this.#options.rounds - turn));
  }

  add(answers: readonly Contribution[]): void {
    for (const answer of answers) this.#latest.set(answer.member, answer);
  }
}

/** Its answer having read its neighbours; plain where it has none to mend, or none to read. */
function turnOf(
  task: Task,
  member: Member,
  turn: number,
  discussion: Discussion,
  { random }: ProtocolContext,
  speaks: boolean,
): Call {
  const own = discussion.own(member);
  const slot = `round-${own ? turn : 1}/${member.alias}`;
  const asking = { slot, canReachClient: true, ...(speaks && { speaks, tools: true }) };
  const shown = discussion.read(member);
  if (own && shown.length > 0) {
    return revisionCall(task, { ...asking, own, shown, instruction: UPDATE }, random);
  }
  return callOf(task, member, { ...asking, purpose: 'answer', messages: task.messages });
}

async function* conclude(
  task: Task,
  rounds: number,
  discussion: Discussion,
  context: ProtocolContext,
): AsyncGenerator<Part, Answer> {
  const { round } = discussion;
  const order = discussion.order();
  const [first] = order;
  const isFree = !isConstrained(task);
  // Whoever has nobody to read has said what it has to say.
  const isDone = first && isFree && discussion.hasNothingNew(first);
  if (!isDone) {
    const last = (member: Member) => turnOf(task, member, rounds, discussion, context, true);
    const answer = yield* speak(order, last, context, round);
    if (answer) return answer;
  }
  const [best] = discussion.standing();
  if (!best || !isFree) throw round.failure();
  return yield* wholeAnswer(best.slot, best.answer);
}

/** The calls of the graph over n members with the answerer at this place. */
function shapeAt(reading: Reading, answerer: number, rounds: number) {
  if (reading[answerer]?.length === 0) return { calls: 1, path: 1, widest: 1 };
  const widths = Array.from(
    { length: rounds },
    (_, index) => ancestors(reading, answerer, rounds - 1 - index).length,
  );
  const calls = widths.reduce((sum, width) => sum + width, 0);
  return { calls, path: rounds, widest: Math.max(...widths) };
}

export const structured = defineProtocol<StructuredOptions>({
  name: 'structured',
  version: 1,
  summary: 'Members read their neighbours on a graph and answer again; one’s last answer counts.',
  source: 'structured interaction, arXiv 2601.21257',
  options: StructuredOptions,
  streams: true,
  tools: true,
  reuse: 'C',
  symmetric: () => false,
  describe({ rounds, graph, reads, answerers }, members) {
    if (members === 1) return { calls: 1, path: 1, widest: 1 };
    if (reads) return { calls: members * (rounds - 1) + 1, path: rounds, widest: members };
    const reading = TOPOLOGIES[graph](members);
    const places = answerers.length === 0 ? [0] : reading.keys().toArray();
    const shapes = places.map((place) => shapeAt(reading, place, rounds));
    return shapes.reduce((most, shape) => (shape.calls > most.calls ? shape : most));
  },
  async *run(task, team, options, context) {
    if (team.length === 1) return yield* answerAlone(task, team, context);
    const discussion = new Discussion(task, team, options);
    for (let turn = 1; turn < options.rounds; turn++) {
      const needed = discussion.needed(turn);
      // Whoever reads nobody is asked once, at the end, and speaks.
      if (needed.length === 1) break;
      const calls = needed
        .filter((member) => !discussion.hasNothingNew(member))
        .map((member) => turnOf(task, member, turn, discussion, context, false));
      if (turn > 1 && context.left().calls <= calls.length) break;
      discussion.add(await askInto(calls, context, discussion.round));
    }
    const answer = yield* conclude(task, options.rounds, discussion, context);
    const heard = team.filter((member) => discussion.own(member)).map(({ alias }) => alias);
    return { ...answer, from: [...new Set([...answer.from, ...heard])] };
  },
});
