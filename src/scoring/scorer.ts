/**
 * The scorer: follows the ledger, turns outcomes into rewards, rewards into tallies, tallies into estimates. It may
 * be down without a client noticing, and may be run twice without counting anything twice.
 */
import type { Clock } from '../contract/capabilities.ts';
import type { Estimate } from '../contract/estimate.ts';
import type { Outcome } from '../contract/outcome.ts';
import type { Reward } from '../contract/reward.ts';
import type { Delivery, Lag, Store, TallyEvent, TallyKey } from '../contract/store.ts';
import { estimatesFromTallies } from './estimate-list.ts';
import { judge } from './judge.ts';
import type { Verifier } from './rewards/reward.ts';

export const SCORER_GROUP = 'scorer';

/** An entry that could not be handled in as many deliveries is set aside, with the reason. */
const MOST_DELIVERIES = 10;
/** Entries of a scorer that died are taken over after this long. */
const CLAIM_IDLE_MS = 5_000;
const BATCH = 256;
/** Long enough to read sums and publish; over before the entries of a scorer that died are taken over. */
const LEASE_MS = 4_000;
const TRIM_EVERY_MS = 60_000;

/** What became of an entry. */
export type Handled = 'outcome' | 'new' | 'revised' | 'duplicate' | 'late' | 'buried';

/** What a scorer tells about its work; for metrics. */
export interface ScorerEvents {
  readonly onHandled: (result: Handled) => void;
  readonly onPublished: (estimates: readonly Estimate[]) => void;
  readonly onLag: (pool: string, lag: Lag) => void;
  readonly onError: (error: unknown) => void;
}

export interface ScorerParts extends ScorerEvents {
  readonly store: Store;
  readonly verifiers: readonly Verifier[];
  readonly clock: Clock;
  /** Names this scorer among those of the group. */
  readonly consumer: string;
  /** The pool's aliases in canonical order, or undefined when the system is no longer configured. */
  readonly playersOf: (system: string) => readonly string[] | undefined;
  /** At least this long between two publications. */
  readonly publishMs: number;
  /** Entries older than this that every group has handled are dropped. */
  readonly retentionMs: number;
}

/**
 * What changed since the last publication: one system, task and reward source. Its first entries are acknowledged
 * only when the change is published: if this scorer dies before, they are delivered again and tell the next one.
 */
interface Dirty {
  readonly key: TallyKey;
  readonly outcome: Outcome;
  readonly held: { readonly pool: string; readonly id: string }[];
}

export class Scorer {
  readonly #parts: ScorerParts;
  readonly #dirty = new Map<string, Dirty>();
  /** Why the last delivery of an entry failed. */
  readonly #failures = new Map<string, string>();
  #publishedAt = Number.NEGATIVE_INFINITY;
  #trimmedAt = Number.NEGATIVE_INFINITY;

  constructor(parts: ScorerParts) {
    this.#parts = parts;
  }

  /** Works until the signal; errors are reported and the work goes on after a pause. */
  async run(signal: AbortSignal): Promise<void> {
    await this.#tellPublished().catch(this.#parts.onError);
    while (!signal.aborted) {
      try {
        await this.step(250);
        if (this.#isDue()) await this.publish();
        await this.#trim();
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
      await this.#handleAll(pool, deliveries);
      handled += deliveries.length;
    }
    return handled;
  }

  /** Entries are counted by their ids, so their order does not matter; one that fails stays with the group. */
  async #handleAll(pool: string, deliveries: readonly Delivery[]): Promise<void> {
    /** Outcomes that are done with; their acknowledgements travel together. */
    const done: string[] = [];
    await Promise.all(
      deliveries.map(async (delivery) => {
        try {
          const result = await this.#handle(pool, delivery);
          if (result === 'outcome') done.push(delivery.id);
          this.#parts.onHandled(result);
          this.#failures.delete(delivery.id);
        } catch (error) {
          this.#failures.set(delivery.id, String(error));
          this.#parts.onError(error);
        }
      }),
    );
    await this.#parts.store.ledger.acknowledge(pool, SCORER_GROUP, done);
  }

  async #handle(pool: string, delivery: Delivery): Promise<Handled> {
    const { store, verifiers, clock } = this.#parts;
    const { entry, id, deliveries } = delivery;
    if (deliveries > MOST_DELIVERIES) {
      const reason = this.#failures.get(id) ?? `not handled in ${deliveries - 1} deliveries`;
      await store.ledger.bury(pool, SCORER_GROUP, id, reason);
      return 'buried';
    }
    if (entry.kind === 'outcome') {
      const reward = await judge(entry.outcome, verifiers, clock.now());
      if (reward) await store.ledger.append([{ kind: 'reward', pool, reward }]);
      return 'outcome';
    }
    const outcome = await store.ledger.outcome(entry.reward.outcomeId);
    // Still on its way, or expired: delivered again until it is set aside.
    if (!outcome) return 'late';
    return this.#tally(tallyEvent(pool, id, outcome, entry.reward), outcome);
  }

  async #tally(event: TallyEvent, outcome: Outcome): Promise<Handled> {
    const { key, entryId } = event;
    const name = JSON.stringify([key.system, key.task, key.source]);
    const before = this.#dirty.get(name)?.held ?? [];
    // An entry that is held comes again when it cannot be published for long; known as it is, it stays held.
    const isAgain = before.some(({ pool, id }) => pool === key.pool && id === entryId);
    const isHeld = isAgain || before.length === 0;
    const result = await this.#parts.store.tallies.apply(isHeld ? { ...event, group: null } : event);
    const held = this.#dirty.get(name)?.held ?? [];
    if (isHeld && !isAgain) held.push({ pool: key.pool, id: entryId });
    this.#dirty.set(name, { key, outcome, held });
    return result;
  }

  /** What was published before this scorer began, so that its metrics do not start empty. */
  async #tellPublished(): Promise<void> {
    const published = await this.#parts.store.estimates.query({});
    const lists = Map.groupBy(published, ({ system, task, source }) =>
      JSON.stringify([system, task, source]),
    );
    for (const estimates of lists.values()) this.#parts.onPublished(estimates);
  }

  #isDue(): boolean {
    return this.#parts.clock.elapsed() - this.#publishedAt >= this.#parts.publishMs;
  }

  /**
   * Publishes the estimates of everything that changed here. The sums are read under a lease whose token goes with
   * the numbers, so that a scorer that stalls in between cannot overwrite newer ones.
   */
  async publish(): Promise<void> {
    const { store, consumer } = this.#parts;
    this.#publishedAt = this.#parts.clock.elapsed();
    for (const [name, dirty] of this.#dirty) {
      const lease = `estimates:${name}`;
      const fence = await store.leases.acquire(lease, consumer, LEASE_MS);
      if (fence === undefined) continue;
      this.#dirty.delete(name);
      try {
        await this.#publishOne(dirty, fence);
        for (const [pool, held] of Map.groupBy(dirty.held, (entry) => entry.pool)) {
          const ids = held.map(({ id }) => id);
          await store.ledger.acknowledge(pool, SCORER_GROUP, ids);
        }
      } catch (error) {
        this.#dirty.set(name, dirty);
        throw error;
      } finally {
        await store.leases.release(lease, consumer);
      }
    }
    await this.#reportLag();
  }

  async #publishOne({ key, outcome }: Dirty, fence: number): Promise<void> {
    const { store, clock, playersOf, onPublished } = this.#parts;
    const players = playersOf(key.system);
    if (!players) return;
    const all = await store.tallies.keys({ pool: key.pool, system: key.system });
    const keys = all.filter((other) => haveSameNumbers(other, key));
    const sums = await Promise.all(keys.map((one) => store.tallies.read(one)));
    const estimates = estimatesFromTallies(keys, sums, players, outcome, clock.now());
    if (await store.estimates.publish(key.system, key.task, key.source, estimates, fence))
      onPublished(estimates);
  }

  async #reportLag(): Promise<void> {
    const { store, onLag } = this.#parts;
    for (const pool of await store.ledger.pools()) onLag(pool, await store.ledger.lag(pool, SCORER_GROUP));
  }

  async #trim(): Promise<void> {
    const { store, clock, retentionMs } = this.#parts;
    if (clock.elapsed() - this.#trimmedAt < TRIM_EVERY_MS) return;
    this.#trimmedAt = clock.elapsed();
    await store.ledger.trim(clock.now() - retentionMs);
  }
}

function haveSameNumbers(a: TallyKey, b: TallyKey): boolean {
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
