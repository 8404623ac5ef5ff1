/** One place where a model can be asked: its upstream behind its breaker. */
import type { Answer, Exchange } from '../../contract/call.ts';
import { ConsortError } from '../../contract/errors.ts';
import type { Emit } from '../../contract/part.ts';
import { verdictOf, type Breaker } from './breaker.ts';
import type { Upstream } from './upstream.ts';

export class Endpoint {
  readonly #alias: string;
  readonly #upstream: Upstream;
  #busy = 0;
  readonly breaker: Breaker | undefined;
  /** What metrics call it. */
  readonly name: string;

  constructor(alias: string, name: string, upstream: Upstream, breaker: Breaker | undefined) {
    this.#alias = alias;
    this.name = name;
    this.#upstream = upstream;
    this.breaker = breaker;
  }

  /** Calls under way. */
  get busy(): number {
    return this.#busy;
  }

  /** How long until it may be asked. */
  waitMs(): number {
    return this.breaker?.waitMs() ?? 0;
  }

  /** @throws `circuit_open` at once while the endpoint is left alone */
  async send(exchange: Exchange): Promise<Answer> {
    const { breaker } = this;
    if (breaker && breaker.waitMs() > 0) throw breaker.refusal(this.#alias);
    let isProbe = breaker?.enter() ?? false;
    // The first word of a probe is enough: the others need not wait for its last.
    const emit: Emit = (part) => {
      if (isProbe && part.type !== 'opaque') {
        isProbe = false;
        breaker?.end('alive', true);
      }
      return exchange.emit(part);
    };
    this.#busy++;
    try {
      const answer = await this.#upstream.send(isProbe ? { ...exchange, emit } : exchange);
      breaker?.end('alive', isProbe);
      return answer;
    } catch (thrown) {
      const error = ConsortError.from(thrown);
      breaker?.end(verdictOf(error), isProbe, error.retryAfterMs);
      throw error;
    } finally {
      this.#busy--;
    }
  }

  close(): Promise<void> {
    return this.#upstream.close();
  }
}
