/** The one interface of a wire: how some API writes what a run says, whole or as it comes. It knows no protocol. */
import type { RunResult } from '../../contract/capabilities.ts';
import type { ConsortError } from '../../contract/errors.ts';
import type { Part } from '../../contract/part.ts';
import type { Plan } from '../../contract/plan.ts';
import type { System } from '../catalog.ts';
import type { SseStream } from './sse-stream.ts';

/** Writes one stream. The caller ends it. */
export interface Writer {
  write(part: Part): void | Promise<void>;
  /**
   * Waits only for what must be kept before the client can hear of it.
   *
   * @param results by choice
   * @param broken why a choice ended after its first word, if one did
   */
  finish(results: readonly RunResult[], broken?: ConsortError): void | Promise<void>;
  /** The end of a stream in which there is no answer. */
  fail(error: ConsortError): void;
}

export interface Wire {
  /** @param raw the upstream's own body, where the answer is a plain model's */
  body(results: readonly RunResult[], raw: string | undefined): string | Promise<string>;
  open(stream: SseStream): Writer;
}

/** What every answer says of itself, in whatever form. */
export interface About {
  /** The id of the first plan, without a prefix. */
  readonly id: string;
  readonly model: string;
  /** Unix seconds. */
  readonly created: number;
  readonly trace: boolean;
  /** Whether the upstream's own bytes are passed on: a simulated model has none. */
  readonly plain: boolean;
  readonly fingerprint?: string;
  /** Alternatives a token that the client wants to see; absent when it wants no log-probabilities. */
  readonly topLogprobs?: number | undefined;
}

export function aboutOf(
  { id, asked }: Plan,
  { plain, simulated }: System,
  more: Pick<About, 'created' | 'trace' | 'topLogprobs'>,
): About {
  return {
    id,
    model: asked,
    plain: plain && !simulated,
    ...(simulated && { fingerprint: 'sim-pool/1' }),
    ...more,
  };
}
