/** One place where a model can be asked: its upstream behind its breaker. */
import type { Answer, Exchange } from '../../contract/call.ts';
import { ConsortError } from '../../contract/errors.ts';
import type { Emit } from '../../contract/part.ts';
import { verdictOf, type Breaker } from './breaker.ts';
import type { Upstream } from './upstream.ts';

export class Endpoint {
  readonly #alias: string;
  readonly #upstream: Upstream;
  readonly breaker: Breaker | undefined;
  /** What metrics call it. */
  readonly name: string;

  constructor(alias: string, name: string, upstream: Upstream, breaker: Breaker | undefined) {
    this.#alias = alias;
    this.name = name;
    this.#upstream = upstream;
    this.breaker = breaker;
  }

  /** @throws `circuit_open` at once while the endpoint is left alone */
  async send(exchange: Exchange): Promise<Answer> {
    const { breaker } = this;
    if (!breaker) return this.#upstream.send(exchange);
    if (breaker.waitMs() > 0) throw breaker.refusal(this.#alias);
    if (breaker.enter()) return this.#probe(exchange, breaker);
    try {
      const answer = await this.#upstream.send(exchange);
      breaker.end('alive', false);
      return answer;
    } catch (thrown) {
      const error = ConsortError.from(thrown);
      breaker.end(verdictOf(error), false, error.retryAfterMs);
      throw error;
    }
  }

  close(): Promise<void> {
    return this.#upstream.close();
  }

  /** The first word of a probe is enough: the others need not wait for its last. */
  async #probe(exchange: Exchange, breaker: Breaker): Promise<Answer> {
    let isOver = false;
    const end = (...verdict: [Parameters<Breaker['end']>[0], (number | null)?]) => {
      if (!isOver) breaker.end(verdict[0], true, verdict[1]);
      isOver = true;
    };
    const emit: Emit = (part) => {
      if (part.type !== 'opaque') end('alive');
      return exchange.emit(part);
    };
    try {
      const answer = await this.#upstream.send({ ...exchange, emit });
      end('alive');
      return answer;
    } catch (thrown) {
      const error = ConsortError.from(thrown);
      end(verdictOf(error), error.retryAfterMs);
      throw error;
    }
  }
}
