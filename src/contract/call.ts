/** One question to one model, and what came of it. */
import Type, { type Static } from 'typebox';
import type { ChatMessage, Sampling, Usage } from './chat.ts';
import type { ConsortError } from './errors.ts';
import type { CallStatus, Emit, FinishReason, Message, Part } from './part.ts';
import type { Member } from './plan.ts';

/** What a call is for; recorded, shown in traces, and the key to credit later. */
export type Purpose =
  | 'answer'
  | 'revise'
  | 'fuse'
  | 'critique'
  | 'inform'
  | 'verify'
  | 'summarise'
  | 'continue'
  | 'route'
  | 'judge'
  | 'vote'
  | 'act';

/**
 * A label step: the whole answer is one of these words. The upstream holds the member to it by whatever its endpoint
 * has; `readLabel` of the protocols reads it back, and nobody ever looks for labels in prose.
 */
export interface LabelStep {
  readonly labels: readonly string[];
  /** Whether the labels' probabilities are wanted, too, where the endpoint can tell them. */
  readonly probabilities: boolean;
  /** Set in training rollouts: tokens made under a constraint cannot be trained, so the step is sampled freely. */
  readonly free?: true;
}

/**
 * A question below the level of words: which tokens could come next, by their ids. The prompt is ids or a text as they
 * stand (`/completions`), or, without one, the messages as the endpoint's chat template writes them.
 */
export interface TokenQuestion {
  readonly prompt?: string | readonly number[];
  /** How many of the likeliest tokens are wanted. */
  readonly top: number;
  /** Asks for the log-probabilities of these ids in the place of the likeliest. */
  readonly ids?: readonly number[];
  /** The one token that may come: what it says, and whether it ends the answer. */
  readonly only?: number;
}

/** One token that has come, with its own log-probability and those that were asked for, before any temperature. */
export interface TokenStep {
  readonly id: number;
  readonly logprob: number;
  readonly others: ReadonlyMap<number, number>;
}

/**
 * A route of an endpoint besides chat. A call to it has the client's own body as `extra`, and the bytes of the answer pass
 * to the client as they come.
 */
export const PassedRoute = Type.Union([Type.Literal('completions'), Type.Literal('embeddings')]);
export type PassedRoute = Static<typeof PassedRoute>;

export interface Call {
  /** Stage and member, e.g. `round-2/alice`: stable over coalitions, so that calls can be shared and credited. */
  readonly slot: string;
  readonly member: Member;
  readonly purpose: Purpose;
  readonly messages: readonly ChatMessage[];
  readonly sampling: Sampling;
  /** Which of several samples of the same prompt this is; 0 for the first. */
  readonly sample: number;
  /** The slots whose text is in the prompt. */
  readonly reads: readonly string[];
  /** Whether the client may hear this call as it speaks. */
  readonly speaks: boolean;
  /** Extra body fields for the upstream: the client's own, on a call that passes through. */
  readonly extra?: Readonly<Record<string, unknown>>;
  /** Where the call goes if not to chat. */
  readonly route?: PassedRoute;
  /** The client's format constraint and tools, only on calls whose output can reach the client. */
  readonly tools?: readonly unknown[];
  /** `tool_choice` and `parallel_tool_calls`, as the client sent them. */
  readonly toolRules?: Readonly<Record<string, unknown>>;
  readonly responseFormat?: unknown;
  /** How many alternatives a token the client wants to see; absent when it wants no log-probabilities. */
  readonly topLogprobs?: number;
  readonly choose?: LabelStep;
  /** Whether the log-probabilities of the answer's tokens are wanted, where the endpoint can tell them. */
  readonly confidence?: boolean;
  /** Goes on with the last message, which is the assistant's, as if there had been no break. */
  readonly continues?: true;
  readonly tokens?: TokenQuestion;
  /** What must come back with the words, for training: a server that does not know these fields may refuse the call. */
  readonly wants?: { readonly tokenIds: boolean; readonly logprobs: boolean };
}

export interface Answer {
  readonly message: Message;
  readonly finishReason: FinishReason;
  readonly usage: Usage;
  /** Aliases whose words these are. */
  readonly from: readonly string[];
  readonly logprobs?: readonly unknown[];
  readonly tokenIds?: readonly number[];
  readonly promptTokenIds?: readonly number[];
  /** What came of `tokens`. Its text may be empty: a token need not be a whole character. */
  readonly steps?: readonly TokenStep[];
}

/** A call that gave no answer, and why. A protocol treats it as a missing member, never as text. */
export interface Absence {
  readonly absent: true;
  readonly status: Exclude<CallStatus, 'ok'>;
  readonly error: ConsortError;
}

export function isAbsent(result: Answer | Absence): result is Absence {
  return 'absent' in result;
}

/**
 * A call under way. Iterate it to stream the words through, await `answer` to take it whole, or both.
 * `answer` never rejects. Dropping the iterator does not cancel: `cancel()` does.
 */
export interface Reply extends AsyncIterable<Part> {
  readonly call: Call;
  readonly answer: Promise<Answer | Absence>;
  /** Stops a call that is no longer needed; nobody is blamed for its absence. */
  cancel(): void;
}

/** The one capability of a protocol: starts the call at once. */
export type Ask = (call: Call) => Reply;

/** What is learnt about a call on its way down, for its record. The decorators that know write here. */
export interface CallNote {
  attempts: number;
  reused: boolean;
  /** What failed attempts used up; the answer's own usage is not in it. */
  lostUsage: Usage;
  /** The endpoints that were asked, where the model has several, and the one that answered. */
  asked?: string[];
  endpoint?: string;
  /** Whose answer it is, when another model stood in for the member, and why the member failed. */
  standIn?: { readonly member: Member; readonly code: string };
  /** What came whole and is no answer, for it says nothing. */
  empty?: Answer;
}

/** A call that has ended, as whoever runs the system may hear of it. */
export interface CallEnd {
  readonly call: Call;
  readonly result: Answer | Absence;
  readonly note: Readonly<CallNote>;
}

/** One call on its way through the decorators. */
export interface Exchange {
  readonly call: Call;
  readonly emit: Emit;
  readonly signal: AbortSignal;
  /** Whether parts are wanted as they come; without it the upstream may answer whole. */
  readonly stream: boolean;
  readonly note: CallNote;
}

/**
 * What decorators wrap: runs one call to its end, emitting parts on the way. Rejects with a catalogue error.
 * Undici's `dispatch => dispatch` is the model: every concern is a function from one Send to another.
 */
export type Send = (exchange: Exchange) => Promise<Answer>;
