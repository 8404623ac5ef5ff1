interface Waiting<Item, Result> {
  readonly item: Item;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
}

/** Gathers what comes in one turn of the event loop, so that it can be handled together. */
export class TurnGroup<Item, Result> {
  readonly #handle: (items: readonly Item[]) => readonly Result[];
  #waiting: Waiting<Item, Result>[] = [];

  /** @param handle gives one result for each item, in order; what throws is asked again, item by item */
  constructor(handle: (items: readonly Item[]) => readonly Result[]) {
    this.#handle = handle;
  }

  add(item: Item): Promise<Result> {
    if (this.#waiting.length === 0) setImmediate(() => this.flush());
    return new Promise((resolve, reject) => this.#waiting.push({ item, resolve, reject }));
  }

  /** Handles what waits now. */
  flush(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    try {
      this.#settle(waiting);
    } catch {
      // One of them is at fault: it alone fails, and nothing is thrown where nobody could catch it.
      for (const one of waiting) {
        try {
          this.#settle([one]);
        } catch (error) {
          one.reject(error);
        }
      }
    }
  }

  #settle(waiting: readonly Waiting<Item, Result>[]): void {
    const results = this.#handle(waiting.map(({ item }) => item));
    for (const [index, { resolve }] of waiting.entries()) resolve(results[index] as Result);
  }
}
