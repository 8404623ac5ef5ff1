/** The order in which a run visits its prompts: each once an epoch, in an order that follows from the seed alone. */
import { createHash } from 'node:crypto';

export interface Visit<T> {
  readonly item: T;
  /** How often it was visited before. */
  readonly visit: number;
}

export class PromptOrder<T extends { readonly id: string }> {
  readonly #items: readonly T[];
  readonly #seed: number;
  #epoch = -1;
  #order: readonly T[] = [];

  /** @param items at least one */
  constructor(items: readonly T[], seed: number) {
    if (items.length === 0) throw new RangeError('there are no prompts');
    this.#items = items;
    this.#seed = seed;
  }

  /** The visit with this number, from 0: a run that is taken up again goes on where it was. */
  at(index: number): Visit<T> {
    const visit = Math.floor(index / this.#items.length);
    if (visit !== this.#epoch) this.#shuffle(visit);
    const item = this.#order[index % this.#items.length];
    if (!item) throw new RangeError(`there is no visit ${index}`);
    return { item, visit };
  }

  /** Sorted by a hash, which needs no generator whose state would have to be kept. */
  #shuffle(epoch: number): void {
    const keyed = this.#items.map((item) => {
      const key = createHash('sha256')
        .update(JSON.stringify([this.#seed, epoch, item.id]))
        .digest('hex');
      return { key, item };
    });
    this.#order = keyed.toSorted((a, b) => (a.key < b.key ? -1 : 1)).map(({ item }) => item);
    this.#epoch = epoch;
  }
}
