/** The requests that are being answered, so that they can be ended with a word instead of a cut. */
import { ConsortError } from '../contract/errors.ts';

export class UnderWay {
  readonly #requests = new Set<AbortController>();
  #isOver = false;
  #ended = 0;

  /** How many were ended before their answer was complete. */
  get ended(): number {
    return this.#ended;
  }

  add(request: AbortController): void {
    if (this.#isOver) this.#end(request);
    else this.#requests.add(request);
  }

  delete(request: AbortController): void {
    this.#requests.delete(request);
  }

  /** Ends them all, and whatever else may come. */
  end(): void {
    this.#isOver = true;
    for (const request of this.#requests) this.#end(request);
    this.#requests.clear();
  }

  #end(request: AbortController): void {
    if (request.signal.aborted) return;
    this.#ended++;
    request.abort(new ConsortError('shutting_down', [], { retryAfterMs: 1_000 }));
  }
}
