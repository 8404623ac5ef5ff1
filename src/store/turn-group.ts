/** Gathers what comes in one turn of the event loop, so that it can be handled together. */
export class TurnGroup<Item, Result> {
  readonly #handle: (items: readonly Item[]) => readonly Result[];
  #waiting: { readonly item: Item; readonly resolve: (result: Result) => void }[] = [];

  /** @param handle gives one result for each item, in order */
  constructor(handle: (items: readonly Item[]) => readonly Result[]) {
    this.#handle = handle;
  }

  add(item: Item): Promise<Result> {
    if (this.#waiting.length === 0) setImmediate(() => this.flush());
    return new Promise((resolve) => this.#waiting.push({ item, resolve }));
  }

  /** Handles what waits now. */
  flush(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    const results = this.#handle(waiting.map(({ item }) => item));
    for (const [index, { resolve }] of waiting.entries()) resolve(results[index] as Result);
  }
}
