/** The metrics of the scorer, on whichever registry the process has: its own, or the gateway's. */
import { Counter, Gauge, Registry } from 'prom-client';
import type { Estimate, Metric } from '../contract/estimate.ts';
import type { Lag } from '../contract/store.ts';
import { watchProcess } from './process-metrics.ts';

/** An estimate of fewer prompts is no number to alert on: it is counted as held back. */
const LEAST_CLUSTERS = 50;

const RESULTS = ['outcome', 'new', 'revised', 'duplicate', 'late', 'buried'];

interface Family {
  readonly value: Gauge;
  readonly lower: Gauge;
  readonly upper: Gauge;
}

export class ScorerMetrics {
  readonly #registry: Registry;
  readonly #entries: Counter;
  readonly #unreadAge: Gauge;
  readonly #pending: Gauge;
  readonly #pendingAge: Gauge;
  readonly #success: Gauge;
  readonly #samples: Gauge;
  readonly #held: Gauge;
  readonly #families: Partial<Record<Metric, Family>>;
  readonly #heldBack = new Map<string, number>();

  /** A registry with the default metrics of a process, for a scorer on its own. */
  static registry(version: string): Registry {
    const registry = new Registry();
    watchProcess(registry, 'scorer', version);
    return registry;
  }

  constructor(registry: Registry) {
    this.#registry = registry;
    this.#entries = new Counter({
      name: 'consort_scorer_entries_total',
      help: 'Entries of the ledger that the scorer handled, by result.',
      labelNames: ['result'],
      registers: [registry],
    });
    // Known from the start, so that the first of a kind is an increase.
    for (const result of RESULTS) this.#entries.labels({ result }).inc(0);
    this.#unreadAge = this.#gauge(
      'consort_ledger_oldest_unread_age_seconds',
      'Age of the oldest entry that the scorer has not been given.',
      ['pool'],
    );
    this.#pending = this.#gauge(
      'consort_ledger_pending_entries',
      'Entries given to a scorer and not finished.',
      ['pool'],
    );
    this.#pendingAge = this.#gauge(
      'consort_ledger_oldest_pending_age_seconds',
      'Age of the oldest entry given to a scorer and not finished.',
      ['pool'],
    );
    this.#success = this.#gauge(
      'consort_scorer_last_success_timestamp_seconds',
      'When the scorer last went through its round.',
      [],
    );
    this.#samples = this.#gauge('consort_estimate_samples', 'Prompts behind the value of a system.', [
      'system',
      'task',
      'source',
    ]);
    this.#held = this.#gauge('consort_estimate_held_back', 'Estimates of too few prompts to be shown here.', [
      'system',
    ]);
    this.#families = {
      value: this.#family('consort_compositional_strength', 'Mean reward of the whole team', []),
      'leave-one-out': this.#family('consort_member_contribution', 'What the team loses without the member', [
        'member',
      ]),
      'shapley-centred': this.#family(
        'consort_member_shapley_centred',
        'Shapley value of the member less an equal share',
        ['member'],
      ),
    };
  }

  handled(result: string, count = 1): void {
    this.#entries.labels({ result }).inc(count);
  }

  /** @param now Unix milliseconds */
  lag(pool: string, { oldestUnreadAt, pending, oldestPendingAt }: Lag, now: number): void {
    const age = (at: number | null) => (at === null ? 0 : Math.max(0, now - at) / 1000);
    this.#unreadAge.labels({ pool }).set(age(oldestUnreadAt));
    this.#pending.labels({ pool }).set(pending);
    this.#pendingAge.labels({ pool }).set(age(oldestPendingAt));
    this.#success.set(now / 1000);
  }

  /** Shows the estimates of one system, task and source. */
  published(estimates: readonly Estimate[]): void {
    const [first] = estimates;
    if (!first) return;
    let held = 0;
    for (const estimate of estimates) {
      const { system, task, source, metric, subject, value, interval, clusters } = estimate;
      const labels = { system, task, source };
      if (metric === 'value') this.#samples.labels(labels).set(clusters);
      const family = this.#families[metric];
      if (!family) continue;
      if (clusters < LEAST_CLUSTERS) {
        held++;
        continue;
      }
      const named = metric === 'value' ? labels : { ...labels, member: subject };
      family.value.labels(named).set(value);
      family.lower.labels(named).set(interval[0]);
      family.upper.labels(named).set(interval[1]);
    }
    this.#heldBack.set(JSON.stringify([first.system, first.task, first.source]), held);
    const ofSystem = [...this.#heldBack].filter(([name]) => name.startsWith(`["${first.system}",`));
    this.#held.labels({ system: first.system }).set(ofSystem.reduce((sum, [, count]) => sum + count, 0));
  }

  #family(name: string, help: string, more: string[]): Family {
    const labels = ['system', 'task', 'source', ...more];
    return {
      value: this.#gauge(name, `${help}.`, labels),
      lower: this.#gauge(
        `${name}_ci_lower`,
        `${help}: lower end of the anytime-valid 95 % interval.`,
        labels,
      ),
      upper: this.#gauge(
        `${name}_ci_upper`,
        `${help}: upper end of the anytime-valid 95 % interval.`,
        labels,
      ),
    };
  }

  #gauge(name: string, help: string, labelNames: string[]): Gauge {
    return new Gauge({ name, help, labelNames, registers: [this.#registry] });
  }
}
