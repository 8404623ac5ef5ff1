/**
 * Several places where one model can be asked. A call goes to the less busy of two drawn at random: that spreads load
 * nearly as evenly as looking at all of them, and gateways that know nothing of each other do not all run to the same
 * idle one. A place that is left alone, or that has failed this very call, is drawn only when there is no other.
 */
import type { Answer, CallNote, Exchange } from '../../contract/call.ts';
import type { Endpoint } from './endpoint.ts';

export class Endpoints {
  readonly #all: readonly Endpoint[];
  readonly #random: () => number;

  /** @param random uniform in [0, 1) */
  constructor(all: readonly Endpoint[], random: () => number) {
    this.#all = all;
    this.#random = random;
  }

  get all(): readonly Endpoint[] {
    return this.#all;
  }

  send(exchange: Exchange): Promise<Answer> {
    const [only, another] = this.#all;
    return only && !another ? only.send(exchange) : this.#sendToOne(exchange);
  }

  async #sendToOne(exchange: Exchange): Promise<Answer> {
    const { note } = exchange;
    const endpoint = this.#choose(note);
    (note.asked ??= []).push(endpoint.name);
    const answer = await endpoint.send(exchange);
    note.endpoint = endpoint.name;
    return answer;
  }

  /** Whether the call could be sent at once to a place that it has not been sent to. */
  isElsewhere({ asked }: CallNote): boolean {
    if (this.#all.length < 2) return false;
    return this.#all.some((endpoint) => !asked?.includes(endpoint.name) && endpoint.waitMs() === 0);
  }

  async close(): Promise<void> {
    await Promise.all(this.#all.map((endpoint) => endpoint.close()));
  }

  #choose({ asked }: CallNote): Endpoint {
    const open = this.#all.filter((endpoint) => endpoint.waitMs() === 0);
    const fresh = asked ? open.filter(({ name }) => !asked.includes(name)) : open;
    const chosen = this.#draw(fresh) ?? this.#draw(open);
    // None may be asked: the one that may be first says for how long.
    return chosen ?? this.#all.reduce((first, one) => (one.waitMs() < first.waitMs() ? one : first));
  }

  #draw(from: readonly Endpoint[]): Endpoint | undefined {
    const count = from.length;
    const at = Math.floor(this.#random() * count);
    const one = from[at];
    const other = from[(at + 1 + Math.floor(this.#random() * (count - 1))) % count];
    return one && other && other.busy < one.busy ? other : one;
  }
}
