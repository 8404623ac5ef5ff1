/** What the rooms are handed instead of reaching for it: time, chance, names, a running system. */
import type { Answer, Call, CallEnd } from './call.ts';
import type { ChatMessage } from './chat.ts';
import type { ConsortError } from './errors.ts';
import type { Outcome } from './outcome.ts';
import type { Emit } from './part.ts';
import type { Plan } from './plan.ts';
import type { Task } from './task.ts';

export interface Clock {
  /** Unix milliseconds, for records. */
  now(): number;
  /** Monotonic milliseconds, for durations. */
  elapsed(): number;
}

/**
 * Chance by name: the same label gives the same number in [0, 1) for the same prompt instance and replicate,
 * whatever the coalition and the order of arrival. So coalitions of one prompt can share calls.
 */
export type Random = (label: string) => number;

/** A fresh UUIDv7 (RFC 9562). */
export type NewId = () => string;

/**
 * Calls of one prompt that several coalitions may share. Keys are made by the engine from everything that can
 * change an answer; whoever runs the coalitions of one prompt makes one and drops it with the prompt.
 */
export type SharedCalls = Map<string, Promise<Answer>>;

/** A call of an earlier run that goes on: its member is asked again, with what it had read then. */
export interface Resumption {
  readonly member: string;
  readonly messages: readonly ChatMessage[];
  /** Aliases whose words the earlier answer was. */
  readonly from: readonly string[];
}

export interface RunOptions {
  /** Where to go on instead of running the protocol from its start; should the member fail, that is done after all. */
  readonly resume?: Resumption;
  readonly share?: SharedCalls;
  /** Changes a call before it gets its seed and its place among the shared ones; called once a call, parents first. */
  readonly prepare?: (call: Call) => Call;
  /** Hears of every call that has ended, before the run does. Must not throw. */
  readonly onCall?: (end: CallEnd) => void;
  readonly emit?: Emit;
  readonly signal: AbortSignal;
  /** Whether the client wants words as they come; without it upstreams may answer whole. */
  readonly stream: boolean;
  /** Whether steps of calls that the client does not hear are emitted too. */
  readonly trace: boolean;
}

export interface RunResult {
  readonly outcome: Outcome;
  readonly answer?: Answer;
  /** The call that called the tools, when the answer is tool calls. */
  readonly toolCall?: Call;
  /** Why there is no answer, or why nobody heard it. */
  readonly error?: ConsortError;
}

/** The whole system as one function: scoring and policy run it without knowing the gateway. Never rejects. */
export type RunSystem = (plan: Plan, task: Task, options: RunOptions) => Promise<RunResult>;
