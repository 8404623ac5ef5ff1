/** Turns tokens into text that can be sent at once: whole characters only, and nothing of a stop string. */
import type { Token } from 'node-llama-cpp';
import type { TinyModel } from './tiny-model.ts';

export class SpokenText {
  readonly #model: TinyModel;
  readonly #stops: readonly string[];
  readonly #tokens: Token[] = [];
  readonly #start: number;
  #sent: number;

  /** @param before the end of the prompt: a character that began there is finished here */
  constructor(model: TinyModel, stops: readonly string[], before: readonly Token[] = []) {
    this.#model = model;
    this.#stops = stops;
    this.#tokens.push(...before);
    this.#sent = whole(model.text(before)).length;
    this.#start = this.#sent;
  }

  /** What can be said now that `token` has come, and whether a stop string is complete. */
  add(token: Token): { text: string; stopped: boolean } {
    this.#tokens.push(token);
    const text = this.#model.text(this.#tokens);
    const cuts = this.#stops.map((stop) => text.indexOf(stop, this.#start));
    const cut = Math.min(...cuts.filter((at) => at >= 0));
    if (Number.isFinite(cut)) return { text: this.#upTo(text, cut), stopped: true };
    return { text: this.#upTo(text, text.length - this.#unsure(text)), stopped: false };
  }

  /** What was held back because it might have become a stop string; a character without its end is never said. */
  rest(): string {
    const text = whole(this.#model.text(this.#tokens));
    return this.#upTo(text, text.length);
  }

  #upTo(text: string, end: number): string {
    const start = this.#sent;
    this.#sent = Math.max(start, end);
    return text.slice(start, end);
  }

  /** The length of the end of `text` that a next token could still change or make a stop string of. */
  #unsure(text: string): number {
    if (text.endsWith('\uFFFD')) return text.length - whole(text).length;
    const longest = Math.max(0, ...this.#stops.map((stop) => stop.length - 1));
    for (let length = Math.min(longest, text.length - this.#start); length > 0; length -= 1) {
      const end = text.slice(-length);
      if (this.#stops.some((stop) => stop.startsWith(end))) return length;
    }
    return 0;
  }
}

/** Without a character at the end that has not all of its bytes. */
function whole(text: string): string {
  return text.replace(/\uFFFD+$/, '');
}
