/**
 * The scorer: follows the ledger, turns outcomes into rewards, rewards into tallies, tallies into estimates. It may
 * be down without a client noticing, and may be run twice without counting anything twice.
 */
import type { Clock } from '../contract/capabilities.ts';
import type { Outcome } from '../contract/outcome.ts';
import type { Reward } from '../contract/reward.ts';
import type { Delivery, Store, TallyEvent, TallyKey } from '../contract/store.ts';
import { estimatesFromTallies } from './estimate-list.ts';
import { judge } from './judge.ts';
import type { Verifier } from './rewards/reward.ts';

export const SCORER_GROUP = 'scorer';

/** A reward whose outcome is not there after this many deliveries is given up: the outcome has expired. */
const MOST_DELIVERIES = 10;
/** Half-redelivered entries of a scorer that died are taken over after this long. */
const CLAIM_IDLE_MS = 5_000;
const BATCH = 256;

export interface ScorerParts {
  readonly store: Store;
  readonly verifiers: readonly Verifier[];
  readonly clock: Clock;
  /** Names this scorer among those of the group. */
  readonly consumer: string;
  /** The pool's aliases in canonical order, or undefined when the pool is no longer configured. */
  readonly playersOf: (system: string, poolRevision: string) => readonly string[] | undefined;
  /** At least this long between two publications of the same numbers. */
  readonly publishMs: number;
  readonly onError: (error: unknown) => void;
}

/** What changed since the last publication: one system, task and reward source. */
interface Dirty {
  readonly key: TallyKey;
  readonly outcome: Outcome;
}

export class Scorer {
  readonly #parts: ScorerParts;
  readonly #dirty = new Map<string, Dirty>();
  #publishedAt = 0;

  constructor(parts: ScorerParts) {
    this.#parts = parts;
  }

  /** Works until the signal; errors are reported and the work goes on after a pause. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        const handled = await this.step(signal.aborted ? 0 : 250);
        if (handled === 0 || this.#due()) await this.publish();
      } catch (error) {
        this.#parts.onError(error);
        await pause(500, signal);
      }
    }
    await this.publish().catch(this.#parts.onError);
  }

  /** One round over all pools; returns how many entries it handled. */
  async step(blockMs: number): Promise<number> {
    const { store, consumer } = this.#parts;
    const pools = await store.ledger.pools();
    if (pools.length === 0) {
      await pause(blockMs);
      return 0;
    }
    let handled = 0;
    const wait = Math.ceil(blockMs / pools.length);
    for (const pool of pools) {
      const options = { pool, group: SCORER_GROUP, consumer, count: BATCH, claimIdleMs: CLAIM_IDLE_MS };
      const deliveries = await store.ledger.follow({ ...options, blockMs: handled > 0 ? 0 : wait });
      for (const delivery of deliveries) await this.#handle(pool, delivery);
      handled += deliveries.length;
    }
    return handled;
  }

  async #handle(pool: string, delivery: Delivery): Promise<void> {
    const { store, verifiers, clock } = this.#parts;
    const { entry, id } = delivery;
    if (entry.kind === 'outcome') {
      const reward = await judge(entry.outcome, verifiers, clock.now());
      if (reward) await store.ledger.append([{ kind: 'reward', pool, reward }]);
      await store.ledger.acknowledge(pool, SCORER_GROUP, [id]);
      return;
    }
    const outcome = await store.ledger.outcome(entry.reward.outcomeId);
    if (outcome) {
      const event = tallyEvent(pool, id, outcome, entry.reward);
      await store.tallies.apply(event);
      const { system, task, source } = event.key;
      this.#dirty.set(JSON.stringify([system, task, source]), { key: event.key, outcome });
    } else if (delivery.deliveries >= MOST_DELIVERIES) {
      await store.ledger.acknowledge(pool, SCORER_GROUP, [id]);
    }
  }

  #due(): boolean {
    return this.#parts.clock.elapsed() - this.#publishedAt >= this.#parts.publishMs;
  }

  /** Publishes the estimates of everything that changed. */
  async publish(): Promise<void> {
    const { store, clock, playersOf } = this.#parts;
    this.#publishedAt = clock.elapsed();
    for (const [name, { key, outcome }] of this.#dirty) {
      this.#dirty.delete(name);
      const players = playersOf(key.system, key.poolRevision);
      if (!players) continue;
      const all = await store.tallies.keys({ pool: key.pool, system: key.system });
      const keys = all.filter((other) => sameNumbers(other, key));
      const sums = await Promise.all(keys.map((one) => store.tallies.read(one)));
      const estimates = estimatesFromTallies(keys, sums, players, outcome, clock.now());
      await store.estimates.publish(key.system, key.task, key.source, estimates);
    }
  }
}

function sameNumbers(a: TallyKey, b: TallyKey): boolean {
  return (
    a.task === b.task &&
    a.source === b.source &&
    a.poolRevision === b.poolRevision &&
    a.protocolRevision === b.protocolRevision
  );
}

const DESIGN_LETTERS: Partial<Record<string, TallyEvent['design']>> = { full: 'f', duel: 'd' };

/** One reward as the tallies take it: the intended coalition, whatever answered (intention to treat). */
export function tallyEvent(
  pool: string,
  entryId: string,
  { plan, ...outcome }: Outcome,
  reward: Reward,
): TallyEvent {
  return {
    key: {
      pool,
      poolRevision: plan.pool.revision,
      system: plan.system,
      protocolRevision: plan.protocolRevision,
      task: outcome.taskLabel,
      source: reward.source,
      bucket: new Date(outcome.startedAt).toISOString().slice(0, 10),
    },
    group: SCORER_GROUP,
    entryId,
    promptInstance: plan.promptInstance,
    mask: outcome.intended,
    n: plan.pool.size,
    replicate: plan.replicate,
    reward: reward.value === null ? null : Math.round(reward.value * 10_000),
    design: DESIGN_LETTERS[plan.design] ?? '-',
  };
}

function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener('abort', () => resolve(), { once: true });
    if (signal?.aborted) {
      clearTimeout(timer);
      resolve();
    }
  });
}
