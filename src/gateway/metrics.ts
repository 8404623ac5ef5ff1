/**
 * Every metric of the gateway, on a registry of its own. Children are cached: looking one up by a label object
 * costs more than counting. `docs/reference/metrics.md` lists the same names; a test compares them.
 */
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { Outcome } from '../contract/outcome.ts';

const E2E = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 60, 120, 300, 540];
const FIRST_TOKEN = [0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1, 1.5, 2.5, 4, 6, 10, 15, 30, 60];
const SMALL = [1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32];

/** A child per label values, made once. */
function cached<Child>(make: (...values: string[]) => Child): (...values: string[]) => Child {
  const children = new Map<string, Child>();
  return (...values) => {
    const key = values.join('\0');
    let child = children.get(key);
    if (!child) children.set(key, (child = make(...values)));
    return child;
  };
}

/** A spool as far as its gauges look into it. */
export interface Spooling {
  readonly counters: { readonly pending: number; readonly bytes: number; readonly replayed: number };
}

export class Metrics {
  readonly registry = new Registry();
  readonly #requests = this.#counter(
    'consort_requests_total',
    'Requests that ran a plan, by how they ended.',
    ['pool', 'protocol', 'outcome'],
  );
  readonly #rejected = this.#counter(
    'consort_requests_rejected_total',
    'Requests refused before a plan ran.',
    ['code'],
  );
  readonly #duration = this.#histogram(
    'consort_request_duration_seconds',
    'From the plan to the last part.',
    ['pool', 'protocol'],
    E2E,
  );
  readonly #firstToken = this.#histogram(
    'consort_request_time_to_first_token_seconds',
    'From the plan to the first words for the client.',
    ['pool', 'protocol'],
    FIRST_TOKEN,
  );
  readonly #coalition = this.#histogram(
    'consort_coalition_size',
    'Members assigned to a request.',
    ['pool', 'protocol'],
    SMALL,
  );
  readonly #calls = this.#counter('consort_model_calls_total', 'Calls to models, by how they ended.', [
    'model',
    'role',
    'outcome',
  ]);
  readonly #reused = this.#counter(
    'consort_model_calls_reused_total',
    'Calls answered from another coalition’s.',
    ['model'],
  );
  readonly #callDuration = this.#histogram(
    'consort_model_call_duration_seconds',
    'One call, retries included.',
    ['model'],
    E2E,
  );
  readonly #tokens = this.#counter('consort_tokens_total', 'Tokens of all calls, failed ones included.', [
    'model',
    'direction',
  ]);
  readonly #cost = this.#counter('consort_cost_usd_total', 'Cost of all calls by the configured prices.', [
    'model',
  ]);
  readonly #retries = this.#counter('consort_retries_total', 'Attempts made again, by reason.', [
    'model',
    'reason',
  ]);
  readonly #feedback = this.#counter('consort_feedback_total', 'Feedback received.', ['result']);
  readonly #dropped = this.#counter('consort_ledger_dropped_total', 'Outcomes lost, by reason.', ['reason']);
  readonly #inFlight = this.#gauge('consort_requests_in_flight', 'Plans running now.');
  readonly #streams = this.#gauge('consort_streams_active', 'Streamed responses open now.');
  readonly #draining = this.#gauge('consort_draining', '1 while the gateway is shutting down.');
  readonly #byRequest = cached((pool, protocol, outcome) =>
    this.#requests.labels({ pool, protocol, outcome }),
  );
  readonly #byShape = cached((pool, protocol) => {
    const labels = { pool, protocol };
    return {
      duration: this.#duration.labels(labels),
      firstToken: this.#firstToken.labels(labels),
      coalition: this.#coalition.labels(labels),
    };
  });
  readonly #byCall = cached((model, role, outcome) => this.#calls.labels({ model, role, outcome }));
  readonly #byModel = cached((model) => ({
    reused: this.#reused.labels({ model }),
    duration: this.#callDuration.labels({ model }),
    input: this.#tokens.labels({ model, direction: 'input' }),
    output: this.#tokens.labels({ model, direction: 'output' }),
    cost: this.#cost.labels({ model }),
  }));

  constructor(version: string) {
    collectDefaultMetrics({ register: this.registry });
    const info = new Gauge({
      name: 'consort_build_info',
      help: 'Always 1; the labels say what runs.',
      labelNames: ['version', 'node'],
      registers: [this.registry],
    });
    info.set({ version, node: process.versions.node }, 1);
  }

  watchSpool(spool: Spooling): void {
    this.#collected(
      'consort_ledger_spool_entries',
      'Entries that the store does not have yet.',
      () => spool.counters.pending,
    );
    this.#collected('consort_ledger_spool_bytes', 'Bytes of the spool on disk.', () => spool.counters.bytes);
    this.#collected(
      'consort_ledger_replayed_entries',
      'Entries of dead processes that were found and replayed since the start.',
      () => spool.counters.replayed,
    );
  }

  observe(outcome: Outcome): void {
    const { plan } = outcome;
    this.#byRequest(plan.pool.id, plan.protocol.name, outcome.status).inc();
    const shape = this.#byShape(plan.pool.id, plan.protocol.name);
    shape.duration.observe(outcome.durationMs / 1000);
    if (outcome.firstPartMs !== null) shape.firstToken.observe(outcome.firstPartMs / 1000);
    shape.coalition.observe(plan.members.length);
    for (const call of outcome.calls) {
      this.#byCall(call.member, call.purpose, call.status).inc();
      const model = this.#byModel(call.member);
      if (call.reused) {
        model.reused.inc();
        continue;
      }
      model.duration.observe((call.endMs - call.startMs) / 1000);
      model.input.inc(call.usage.inputTokens);
      model.output.inc(call.usage.outputTokens);
      model.cost.inc(call.costMicros / 1e6);
    }
  }

  rejected(code: string): void {
    this.#rejected.labels({ code }).inc();
  }
  retried(model: string, reason: string): void {
    this.#retries.labels({ model, reason }).inc();
  }
  feedback(result: 'accepted' | 'unknown'): void {
    this.#feedback.labels({ result }).inc();
  }
  dropped(reason: string, count = 1): void {
    this.#dropped.labels({ reason }).inc(count);
  }
  began(stream: boolean): void {
    this.#inFlight.inc();
    if (stream) this.#streams.inc();
  }
  ended(stream: boolean): void {
    this.#inFlight.dec();
    if (stream) this.#streams.dec();
  }
  draining(): void {
    this.#draining.set(1);
  }

  #counter(name: string, help: string, labelNames: string[]): Counter {
    return new Counter({ name, help, labelNames, registers: [this.registry] });
  }
  #gauge(name: string, help: string): Gauge {
    return new Gauge({ name, help, registers: [this.registry] });
  }
  /** A gauge whose value is looked up at each scrape. */
  #collected(name: string, help: string, value: () => number): void {
    const gauge = new Gauge({
      name,
      help,
      collect() {
        this.set(value());
      },
    });
    this.registry.registerMetric(gauge);
  }
  #histogram(name: string, help: string, labelNames: string[], buckets: number[]): Histogram {
    return new Histogram({ name, help, labelNames, buckets, registers: [this.registry] });
  }
}
