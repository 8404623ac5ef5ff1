/**
 * The one interface of a collaboration method. A protocol is pure: it knows no clock, no chance but the one
 * handed in, no retries and no model names. Add one as a file here, a line in `index.ts`, a row in
 * docs/protocols.md; the conformance suite in test/conformance/protocol.ts does the rest.
 */
import type { TObject } from 'typebox';
import type { Answer, Ask } from '../../contract/call.ts';
import type { Random } from '../../contract/capabilities.ts';
import type { Part } from '../../contract/part.ts';
import type { Capabilities, Member } from '../../contract/plan.ts';
import type { Task } from '../../contract/task.ts';
import type { OptionFit } from './solo.ts';

/** What remains of the run's budget. */
export interface Left {
  readonly calls: number;
  readonly ms: number;
}

export interface ProtocolContext {
  readonly ask: Ask;
  readonly random: Random;
  readonly left: () => Left;
  /**
   * Puts up the best answer so far. Should time or money end the run before it has a better one, and before the client
   * has heard a word, this is the answer, and the outcome says so.
   */
  readonly offer: (best: { readonly slot: string; readonly answer: Answer }) => void;
  /**
   * Says that the answer is settled although calls are under way, and asks whether to stop them. Not always: in a share
   * of the runs, drawn by prompt and blind to what was said, everybody is heard all the same, so that what is recorded
   * of members stays unbiased; and where coalitions share calls nobody is stopped. The outcome holds which it was.
   *
   * @param share of the runs that may stop, in [0, 1]
   */
  readonly settle: (share: number) => boolean;
}

/**
 * What a run takes in which nothing fails: calls in all, calls in sequence, calls side by side. Where a role passes on
 * to the next member, each failure may cost one call more; the budget is the bound.
 */
export interface Shape {
  readonly calls: number;
  readonly path: number;
  readonly widest: number;
}

export interface OptionProblem {
  readonly option: string;
  /** The rest of a sentence about the option's value: "must …", "has …". */
  readonly wrong: string;
}

export type Options = Readonly<Record<string, unknown>>;

/** How good options are looked for where only trying them tells: walks from some options to the next ones. */
export interface OptionSearch<O> {
  /** The options as they are for this pool, with all that is searched written out. */
  readonly start: (options: O, aliases: readonly string[]) => O;
  readonly nextTo: (options: O) => readonly O[];
  /** Others by chance; what is not searched stays as it is. */
  readonly draw: (options: O, random: Random) => O;
  /** The same for options that are the same. */
  readonly keyOf: (options: O) => string;
}

export interface Protocol {
  readonly name: string;
  /** Goes up when prompts, roles or rules change: it is part of every statistic's key. */
  readonly version: number;
  readonly summary: string;
  /** Paper or tradition it comes from. */
  readonly source: string;
  readonly options: TObject;
  /** Whether words can reach the client before the run ends; a function where the options decide. */
  readonly streams: boolean | ((options: Options) => boolean);
  /** Whether tools may be offered: only where one member speaks and the others cannot call them. */
  readonly tools: boolean;
  /**
   * Set where each turn is a run of its own: results of tools then start the protocol anew, instead of going back to
   * the member that called them.
   */
  readonly runsEachTurn?: true;
  /**
   * What coalitions of one prompt can share: `A` all values follow from each member's own answers, `B` first
   * answers are shared and one call a coalition is not, `C` prompts depend on the coalition from round 2, `D` they
   * depend on the way that each run took.
   */
  readonly reuse: 'A' | 'B' | 'C' | 'D';
  /** Whether prompts hold the members' descriptions: then these are part of the revision of a system's protocol. */
  readonly showsDescriptions?: true;
  /** Whether, with these options, prompts hold the members' prices, which then are part of it, too. */
  readonly showsPrices?: (options: Options) => boolean;
  /**
   * Whether the order of the pool changes nothing but who fills a role or wins a declared tie: then the value of
   * a coalition does not depend on the order of its members when the ties are random.
   */
  readonly symmetric: (options: Options) => boolean;
  /** What is wrong with options that fit the schema: a rule that a schema cannot say. */
  readonly problem?: (options: Options) => OptionProblem | undefined;
  /** Set where options are computed from what members say alone to tasks whose answers are known. */
  readonly fit?: OptionFit<Options>;
  /** Set where a data set can tell which options are good, and nothing simpler can. */
  readonly search?: OptionSearch<Options>;
  /** What every member's endpoint must be able to do where there is more than one: else the plan is refused. */
  readonly needs?: (options: Options) => readonly (keyof Capabilities)[];
  /** Where the number of calls depends on the text: the most that it can take. */
  readonly describe: (options: Options, members: number) => Shape;
  /** `team` is the coalition in the pool's order: the first is the first choice for every role. */
  readonly run: (
    task: Task,
    team: readonly Member[],
    options: Options,
    context: ProtocolContext,
  ) => AsyncGenerator<Part, Answer>;
}

/**
 * Ties a protocol's options schema to the options its functions receive, and hides the type from the list.
 * Options are checked against the schema before a plan exists.
 */
export function defineProtocol<O extends object>(definition: {
  readonly [K in keyof Protocol]: K extends 'describe'
    ? (options: O, members: number) => Shape
    : K extends 'streams'
      ? boolean | ((options: O) => boolean)
      : K extends 'symmetric' | 'showsPrices'
        ? (options: O) => boolean
        : K extends 'problem'
          ? (options: O) => OptionProblem | undefined
          : K extends 'fit'
            ? OptionFit<O>
            : K extends 'search'
              ? OptionSearch<O>
              : K extends 'needs'
                ? (options: O) => readonly (keyof Capabilities)[]
                : K extends 'run'
                  ? (
                      task: Task,
                      team: readonly Member[],
                      options: O,
                      context: ProtocolContext,
                    ) => AsyncGenerator<Part, Answer>
                  : Protocol[K];
}): Protocol {
  return definition as Protocol;
}

export function streamsWith({ streams }: Protocol, options: Options): boolean {
  return typeof streams === 'boolean' ? streams : streams(options);
}
