/**
 * What a running request says, piece by piece. One union for every protocol and every wire; named noun-verb.
 * A part that came whole from an upstream keeps its bytes in `raw`, so that a single model's answer passes
 * through without losing a field or being serialised again.
 */
import type { ToolCall, Usage } from './chat.ts';

export type FinishReason = 'stop' | 'length' | 'tool_calls' | 'content_filter';

interface At {
  /** The slot of the call that speaks. */
  readonly slot: string;
  /** The client's choice index; 0 unless the client asked for several. */
  readonly choice: number;
  /**
   * The upstream's own bytes: one whole SSE event without its blank line, or one whole JSON body. Present on the
   * last part made from these bytes, so that writing every `raw` once writes everything once.
   */
  readonly raw?: string;
}

export interface TextDelta extends At {
  readonly type: 'text-delta';
  readonly text: string;
}
export interface ReasoningDelta extends At {
  readonly type: 'reasoning-delta';
  readonly text: string;
}
export interface ToolCallDelta extends At {
  readonly type: 'tool-call-delta';
  readonly index: number;
  readonly id?: string;
  readonly name?: string;
  readonly arguments?: string;
}
export interface LogprobsDelta extends At {
  readonly type: 'logprobs-delta';
  readonly content: readonly unknown[];
}
export interface StepStart extends At {
  readonly type: 'step-start';
  readonly purpose: string;
  readonly member: string;
}
export interface StepEnd extends At {
  readonly type: 'step-end';
  readonly member: string;
  readonly status: CallStatus;
  readonly durationMs: number;
  readonly usage: Usage;
  readonly text?: string;
}
export interface UsagePart extends At {
  readonly type: 'usage';
  readonly usage: Usage;
}
export interface Finish extends At {
  readonly type: 'finish';
  readonly reason: FinishReason;
}
/** Bytes that carry nothing we read: a role chunk, a provider's extra event. Only a pass-through writes it. */
export interface Opaque extends At {
  readonly type: 'opaque';
}
export interface ErrorPart extends At {
  readonly type: 'error';
  readonly code: string;
  readonly message: string;
}

export type Part =
  | TextDelta
  | ReasoningDelta
  | ToolCallDelta
  | LogprobsDelta
  | StepStart
  | StepEnd
  | UsagePart
  | Finish
  | Opaque
  | ErrorPart;

/** How a call ended. `cancelled` is ours (early exit, client gone), `timeout` a deadline, `failed` the upstream's. */
export type CallStatus = 'ok' | 'failed' | 'timeout' | 'cancelled' | 'refused';

/** Takes one part; a returned promise asks the source to wait (back-pressure) until it settles. */
export type Emit = (part: Part) => void | Promise<void>;

/** A finished message as the client's wire and the next prompt need it. */
export interface Message {
  readonly text: string;
  readonly reasoning?: string;
  readonly toolCalls?: readonly ToolCall[];
}
