/**
 * Every metric of the gateway, on a registry of its own. Children are cached, and what each request counts is summed
 * beside prom-client until a scrape: finding a child by its labels costs more than counting.
 * `docs/reference/metrics.md` lists the same names; a test compares them.
 */
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { Outcome } from '../contract/outcome.ts';
import { watchProcess } from './process-metrics.ts';
import { UpstreamMetrics } from './upstream-metrics.ts';

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

/** What one child of a counter has yet to be told: prom-client's own children hash their labels at every `inc`. */
class Tally {
  #sum: number | undefined;

  add(amount: number): void {
    this.#sum = (this.#sum ?? 0) + amount;
  }

  /** Nothing when nothing was added since, so that a child appears with its first count. */
  take(): number | undefined {
    const sum = this.#sum;
    this.#sum = undefined;
    return sum;
  }
}

/** A counter that is told at each scrape what its children have summed up. */
type Tallied = (labels: Readonly<Record<string, string>>) => Tally;

/** A spool as far as its gauges look into it. */
export interface Spooling {
  readonly counters: { readonly pending: number; readonly bytes: number; readonly replayed: number };
}

export class Metrics {
  readonly registry = new Registry();
  readonly upstreams = new UpstreamMetrics(this.registry);
  readonly #requests = this.#tallied(
    'consort_requests_total',
    'Runs of a plan that clients asked for, by how they ended; each choice of `n` is one.',
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
  readonly #calls = this.#tallied('consort_model_calls_total', 'Calls to models, by how they ended.', [
    'model',
    'role',
    'outcome',
  ]);
  readonly #reused = this.#tallied(
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
  readonly #tokens = this.#tallied('consort_tokens_total', 'Tokens of all calls, failed ones included.', [
    'model',
    'direction',
  ]);
  readonly #cost = this.#tallied('consort_cost_usd_total', 'Cost of all calls by the configured prices.', [
    'model',
  ]);
  readonly #shadow = this.#counter('consort_shadow_prompts_total', 'Prompts sampled for shadow evaluation.', [
    'system',
    'result',
  ]);
  readonly #turns = this.#counter(
    'consort_tool_turns_total',
    'Turns with tools of teams: what was kept of them for the next turn, and whether that was found.',
    ['result'],
  );
  readonly #limited = this.#counter(
    'consort_limit_refusals_total',
    'Requests refused by a limit of their key, by limit.',
    ['limit'],
  );
  readonly #limitsAlone = this.#gauge(
    'consort_limits_alone',
    '1 while limits of keys are counted by this process alone, as the store does not answer.',
  );
  readonly #shed = this.#counter(
    'consort_requests_shed_total',
    'Requests refused because the process had enough to do: too many runs, or an event loop that was late.',
    ['reason'],
  );
  readonly #feedback = this.#counter('consort_feedback_total', 'Feedback received.', ['result']);
  readonly #dropped = this.#counter('consort_ledger_dropped_total', 'Outcomes lost, by reason.', ['reason']);
  readonly #inFlight = this.#gauge('consort_requests_in_flight', 'Plans running now.');
  readonly #streams = this.#gauge('consort_streams_active', 'Streamed responses open now.');
  readonly #draining = this.#gauge('consort_draining', '1 while the gateway is shutting down.');
  readonly #byRequest = cached((pool, protocol, outcome) => this.#requests({ pool, protocol, outcome }));
  readonly #byShape = cached((pool, protocol) => {
    const labels = { pool, protocol };
    return {
      duration: this.#duration.labels(labels),
      firstToken: this.#firstToken.labels(labels),
      coalition: this.#coalition.labels(labels),
    };
  });
  readonly #byCall = cached((model, role, outcome) => this.#calls({ model, role, outcome }));
  readonly #byModel = cached((model) => ({
    reused: this.#reused({ model }),
    duration: this.#callDuration.labels({ model }),
    input: this.#tokens({ model, direction: 'input' }),
    output: this.#tokens({ model, direction: 'output' }),
    cost: this.#cost({ model }),
  }));

  constructor(version: string) {
    watchProcess(this.registry, 'gateway', version);
    // Known from the start, so that the first loss is an increase.
    for (const reason of ['runs', 'loop']) this.#shed.labels({ reason }).inc(0);
    for (const reason of ['full', 'disk', 'refused', 'closed']) this.#dropped.labels({ reason }).inc(0);
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

  watchLimits(limits: { readonly unsettled: number }): void {
    this.#collected(
      'consort_limits_unsettled',
      'Totals of keys that wait to be told to the store.',
      () => limits.unsettled,
    );
  }

  watchLoop(delay: { readonly ms: number }): void {
    this.#collected(
      'consort_event_loop_delay_seconds',
      'How late the event loop was at the last two looks, the lesser of both.',
      () => delay.ms / 1000,
    );
  }

  observe(outcome: Outcome): void {
    const { plan } = outcome;
    // Runs in the background cost calls and tokens, but nobody has requested them.
    if (plan.parent === undefined) this.#observeRequest(outcome);
    for (const call of outcome.calls) {
      this.#byCall(call.member, call.purpose, call.standIn === undefined ? call.status : 'failed').add(1);
      if (call.standIn !== undefined) this.#byCall(call.standIn, call.purpose, call.status).add(1);
      const model = this.#byModel(call.standIn ?? call.member);
      if (call.reused) {
        model.reused.add(1);
        continue;
      }
      model.duration.observe((call.endMs - call.startMs) / 1000);
      model.input.add(call.usage.inputTokens);
      model.output.add(call.usage.outputTokens);
      model.cost.add(call.costMicros / 1e6);
    }
  }

  #observeRequest(outcome: Outcome): void {
    const { plan } = outcome;
    this.#byRequest(plan.pool.id, plan.protocol.name, outcome.status).add(1);
    const shape = this.#byShape(plan.pool.id, plan.protocol.name);
    shape.duration.observe(outcome.durationMs / 1000);
    if (outcome.firstPartMs !== null) shape.firstToken.observe(outcome.firstPartMs / 1000);
    shape.coalition.observe(plan.members.length);
  }

  rejected(code: string): void {
    this.#rejected.labels({ code }).inc();
  }
  turned(result: string): void {
    this.#turns.labels({ result }).inc();
  }
  shadowed(system: string, result: string): void {
    this.#shadow.labels({ system, result }).inc();
  }
  limited(limit: string): void {
    this.#limited.labels({ limit }).inc();
  }
  limitsAlone(isAlone: boolean): void {
    this.#limitsAlone.set(isAlone ? 1 : 0);
  }
  shed(reason: 'runs' | 'loop'): void {
    this.#shed.labels({ reason }).inc();
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
  #tallied(name: string, help: string, labelNames: string[]): Tallied {
    const tallies: { labels: Readonly<Record<string, string>>; tally: Tally }[] = [];
    const counter = new Counter({
      name,
      help,
      labelNames,
      registers: [],
      collect() {
        for (const { labels, tally } of tallies) {
          const sum = tally.take();
          if (sum !== undefined) this.inc(labels, sum);
        }
      },
    });
    this.registry.registerMetric(counter);
    return (labels) => {
      const tally = new Tally();
      tallies.push({ labels, tally });
      return tally;
    };
  }
  #gauge(name: string, help: string): Gauge {
    return new Gauge({ name, help, registers: [this.registry] });
  }
  /** A gauge whose value is looked up at each scrape. */
  #collected(name: string, help: string, value: () => number): void {
    const gauge = new Gauge({
      name,
      help,
      registers: [],
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
