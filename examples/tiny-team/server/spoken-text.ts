/** Turns tokens into text that can be sent at once: whole characters only, and nothing of a stop string. */
import type { Token } from 'node-llama-cpp';
import type { TinyModel } from './tiny-model.ts';

export class SpokenText {
  readonly #model: TinyModel;
  readonly #stops: readonly string[];
  readonly #tokens: Token[] = [];
  #sent = 0;

  constructor(model: TinyModel, stops: readonly string[]) {
    this.#model = model;
    this.#stops = stops;
  }

  /** What can be said now that `token` has come, and whether a stop string is complete. */
  add(token: Token): { text: string; stopped: boolean } {
    this.#tokens.push(token);
    const whole = this.#model.text(this.#tokens);
    const cut = Math.min(...this.#stops.map((stop) => whole.indexOf(stop)).filter((at) => at >= 0));
    if (Number.isFinite(cut)) return { text: this.#upTo(whole, cut), stopped: true };
    return { text: this.#upTo(whole, whole.length - this.#unsure(whole)), stopped: false };
  }

  /** What was held back because it might have become a stop string. */
  rest(): string {
    const whole = this.#model.text(this.#tokens);
    return this.#upTo(whole, whole.length);
  }

  #upTo(whole: string, end: number): string {
    const start = this.#sent;
    this.#sent = Math.max(start, end);
    return whole.slice(start, end);
  }

  /** The length of the end of `whole` that a next token could still change or make a stop string of. */
  #unsure(whole: string): number {
    if (whole.endsWith('\uFFFD')) return 1;
    const longest = Math.max(0, ...this.#stops.map((stop) => stop.length - 1));
    for (let length = Math.min(longest, whole.length); length > 0; length -= 1) {
      const end = whole.slice(-length);
      if (this.#stops.some((stop) => stop.startsWith(end))) return length;
    }
    return 0;
  }
}
