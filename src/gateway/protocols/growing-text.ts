/** A text that several members write piece by piece: keeps to the client's stop strings and its limit of tokens. */
import type { Answer } from '../../contract/call.ts';
import type { Sampling } from '../../contract/chat.ts';
import type { FinishReason, Part } from '../../contract/part.ts';

function stopsOf({ stop }: Sampling): string[] {
  return (typeof stop === 'string' ? [stop] : (stop ?? [])).filter((one) => one !== '');
}

/** The client's limit, or the protocol's own where that is lower. */
export function tokenLimit({ max_completion_tokens, max_tokens }: Sampling, most: number): number {
  return Math.min(most, max_completion_tokens ?? max_tokens ?? most);
}

export class GrowingText {
  readonly #stops: readonly string[];
  #text = '';
  #said = 0;
  #isStopped = false;

  constructor(sampling: Sampling) {
    this.#stops = stopsOf(sampling);
  }

  /** All of it, what is held back included; without the stop string that ended it. */
  get text(): string {
    return this.#text;
  }

  /** Whether a stop string has come: nothing is added after it. */
  get isStopped(): boolean {
    return this.#isStopped;
  }

  /** Adds a piece; gives what can be said now, as the end of a text may be the beginning of a stop string. */
  add(piece: string): string {
    if (this.#isStopped) return '';
    this.#text += piece;
    const cuts = this.#stops.map((stop) => this.#text.indexOf(stop)).filter((at) => at >= 0);
    if (cuts.length === 0) return this.#upTo(this.#text.length - this.#unsure());
    this.#isStopped = true;
    this.#text = this.#text.slice(0, Math.min(...cuts));
    return this.#upTo(this.#text.length);
  }

  /** What was held back, when nothing follows. */
  rest(): string {
    return this.#upTo(this.#text.length);
  }

  #upTo(end: number): string {
    const start = this.#said;
    this.#said = Math.max(start, end);
    return this.#text.slice(start, end);
  }

  #unsure(): number {
    const longest = Math.max(0, ...this.#stops.map(({ length }) => length - 1));
    for (let length = Math.min(longest, this.#text.length); length > 0; length--) {
      if (this.#stops.some((stop) => stop.startsWith(this.#text.slice(-length)))) return length;
    }
    return 0;
  }
}

/** Says words as they stand; nothing where there are none. */
export function* say(slot: string, text: string): Generator<Part, void> {
  if (text !== '') yield { type: 'text-delta', slot, choice: 0, text };
}

/** What is known of a text when it ends. */
export interface Ending {
  readonly slot: string;
  readonly reason: FinishReason;
  readonly from: readonly string[];
  readonly usage: Answer['usage'];
}

/** Says what was held back and ends the answer. */
export function* endText(text: GrowingText, { slot, reason, from, usage }: Ending): Generator<Part, Answer> {
  yield* say(slot, text.rest());
  yield { type: 'finish', slot, choice: 0, reason };
  return { message: { text: text.text }, finishReason: reason, usage, from };
}
