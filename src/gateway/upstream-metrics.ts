/** What is counted on the way to the models: asking again, asking another, leaving alone. */
import { Counter, Gauge, type Registry } from 'prom-client';
import { CIRCUIT_STATES } from './upstreams/breaker.ts';
import type { Circuit } from './upstreams/fleet.ts';

export class UpstreamMetrics {
  readonly #registry: Registry;
  readonly #retries: Counter;
  readonly #withheld: Counter;
  readonly #hedges: Counter;
  readonly #fallbacks: Counter;
  readonly #circuits: Counter;

  constructor(registry: Registry) {
    this.#registry = registry;
    const counter = (name: string, help: string, labelNames: string[]) =>
      new Counter({ name, help, labelNames, registers: [registry] });
    this.#retries = counter('consort_retries_total', 'Attempts made again, by reason.', ['model', 'reason']);
    this.#withheld = counter(
      'consort_retries_withheld_total',
      'Attempts that were not made again because the budget of retries was used up.',
      ['model'],
    );
    this.#hedges = counter(
      'consort_hedges_total',
      'Calls that were made a second time because the first said nothing, and whether the second was heard.',
      ['model', 'won'],
    );
    this.#fallbacks = counter(
      'consort_fallbacks_total',
      'Calls in which another model stood in for the one that was asked.',
      ['model', 'to'],
    );
    this.#circuits = counter(
      'consort_circuit_transitions_total',
      'Changes of the breaker of an endpoint, by the new state.',
      ['model', 'endpoint', 'state'],
    );
  }

  watchCircuits({ circuits }: { readonly circuits: () => readonly Circuit[] }): void {
    const gauge = new Gauge({
      name: 'consort_circuit_state',
      help: '1 for the state in which the breaker of an endpoint is: closed, open (it is not asked) or half_open.',
      labelNames: ['model', 'endpoint', 'state'],
      registers: [],
      collect() {
        for (const { model, endpoint, state: current } of circuits()) {
          for (const state of CIRCUIT_STATES) this.set({ model, endpoint, state }, state === current ? 1 : 0);
        }
      },
    });
    this.#registry.registerMetric(gauge);
  }

  retried(model: string, reason: string): void {
    this.#retries.labels({ model, reason }).inc();
  }
  retryWithheld(model: string): void {
    this.#withheld.labels({ model }).inc();
  }
  hedged(model: string, hasWon: boolean): void {
    this.#hedges.labels({ model, won: String(hasWon) }).inc();
  }
  fellBack(model: string, to: string): void {
    this.#fallbacks.labels({ model, to }).inc();
  }
  circuitTurned({ model, endpoint, state }: Circuit): void {
    this.#circuits.labels({ model, endpoint, state }).inc();
  }
}
