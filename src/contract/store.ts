/** What is remembered, as interfaces: each has a SQLite and a Redis implementation that pass one suite. */
import type { Estimate } from './estimate.ts';
import type { Outcome } from './outcome.ts';
import type { Release } from './release.ts';
import type { Reward } from './reward.ts';

export type LedgerEntry =
  | { readonly kind: 'outcome'; readonly pool: string; readonly outcome: Outcome }
  | { readonly kind: 'reward'; readonly pool: string; readonly reward: Reward };

export interface Delivery {
  /** `<milliseconds>-<sequence>`, increasing within a pool. */
  readonly id: string;
  readonly entry: LedgerEntry;
  /** 1 on the first delivery; more when a consumer died or failed before it acknowledged; 0 outside any group. */
  readonly deliveries: number;
}

/** The append-only record of one deployment. */
export interface Ledger {
  /** Idempotent by outcome id. A repeated reward is kept and is a no-op or a revision for the tallies. */
  append(entries: readonly LedgerEntry[]): Promise<void>;
  /** Entries after `after` (`'0-0'` for all), oldest first, without any group. */
  read(pool: string, after: string, count: number): Promise<Delivery[]>;
  /**
   * The next entries for a consumer of a group: first those that a consumer left unacknowledged for longer than
   * `claimIdleMs`, then new ones, waiting up to `blockMs` for one. A group starts at the beginning of the pool. Groups
   * follow work: rewards, and outcomes that bring a gold answer; what nobody can judge passes them by.
   */
  follow(options: FollowOptions): Promise<Delivery[]>;
  /** For entries that no tally acknowledges. */
  acknowledge(pool: string, group: string, ids: readonly string[]): Promise<void>;
  outcome(id: string): Promise<Outcome | undefined>;
  pools(): Promise<string[]>;
  /**
   * Drops what was appended before `beforeMs` and every group has acknowledged, and gives how many entries that
   * were. Call it now and then; what no group has seen or some group still holds stays.
   */
  trim(beforeMs: number): Promise<number>;
  /** How far a group is behind. */
  lag(pool: string, group: string): Promise<Lag>;
  /**
   * Sets an entry aside that a group cannot handle, with the reason, and acknowledges it for the group. At most
   * {@link MOST_BURIED} a pool are kept.
   */
  bury(pool: string, group: string, id: string, reason: string): Promise<void>;
  /** What was set aside, oldest first. */
  buried(pool: string): Promise<Buried[]>;
}

export const MOST_BURIED = 10_000;

export interface Buried {
  readonly id: string;
  readonly reason: string;
}

export interface Lag {
  /** Unix milliseconds at which the oldest entry was appended that the group has not been given; null when none. */
  readonly oldestUnreadAt: number | null;
  /** Entries that consumers hold without having acknowledged them. */
  readonly pending: number;
  /** Unix milliseconds at which the oldest of these was appended; null when none. */
  readonly oldestPendingAt: number | null;
}

export interface FollowOptions {
  readonly pool: string;
  readonly group: string;
  readonly consumer: string;
  readonly count: number;
  readonly blockMs: number;
  readonly claimIdleMs: number;
}

/** Names one set of running sums: same pool version, protocol version, task, reward source and day. */
export interface TallyKey {
  readonly pool: string;
  readonly poolRevision: string;
  readonly system: string;
  readonly protocolRevision: string;
  readonly task: string;
  readonly source: string;
  /** UTC day, `YYYY-MM-DD`. */
  readonly bucket: string;
}

export interface TallyEvent {
  readonly key: TallyKey;
  /** For whom the entry is acknowledged; null leaves it with its consumer, who has more to do about it. */
  readonly group: string | null;
  readonly entryId: string;
  readonly promptInstance: string;
  readonly mask: number;
  /** Pool size. */
  readonly n: number;
  readonly replicate: number;
  /** Reward × 10,000, rounded; null when there is none. */
  readonly reward: number | null;
  /** `d`: half of a duel; `f`: part of a full panel; `-`: anything else. */
  readonly design: 'd' | 'f' | '-';
}

/**
 * Exact integer sums per coalition (field meanings: docs/reference/data-model.md). `apply` is idempotent by
 * (promptInstance, mask, replicate) and entry id: an older or equal id changes nothing, a newer one replaces the
 * old contribution. It acknowledges the entry for its group, if any, in the same step. All that a prompt instance
 * contributes stands in the bucket of its first event, so that a revision after midnight retracts where it added.
 */
export interface Tallies {
  apply(event: TallyEvent): Promise<'new' | 'revised' | 'duplicate'>;
  keys(filter: { readonly pool?: string; readonly system?: string }): Promise<TallyKey[]>;
  /** Sums as BigInt, by field. */
  read(key: TallyKey): Promise<Map<string, bigint>>;
}

export interface Estimates {
  /**
   * Replaces all estimates of (system, task, source); false when a holder of a later lease has published them.
   *
   * @param fence the token of the lease under which the numbers were made
   */
  publish(
    system: string,
    task: string,
    source: string,
    estimates: readonly Estimate[],
    fence: number,
  ): Promise<boolean>;
  query(filter: { readonly system?: string; readonly task?: string }): Promise<Estimate[]>;
}

/** Who does what only one may do. A holder that stalls is fenced: its token is lower than its successor's. */
export interface Leases {
  /**
   * Takes or renews a lease. Gives its fencing token, which rises with every new holder, or undefined while another
   * holds it.
   */
  acquire(name: string, holder: string, ttlMs: number): Promise<number | undefined>;
  /** Gives a lease back early; does nothing when it is another's. */
  release(name: string, holder: string): Promise<void>;
}

/** Running totals with a limit, shared by all processes: money a day, one prompt a cluster. */
export interface Counters {
  /**
   * Adds `amount` unless the total would go over `limit`; says whether it did. A counter forgets its total `ttlMs`
   * after its first reservation. What is never settled stays reserved until then: the limit holds, on the safe side.
   *
   * @param amount a non-negative integer
   */
  reserve(name: string, amount: number, limit: number, ttlMs: number): Promise<boolean>;
  /** Corrects a reservation by what it came to: `actual − reserved`, an integer. */
  settle(name: string, difference: number): Promise<void>;
  total(name: string): Promise<number>;
}

/** Places of which only so many are taken at once, by all processes together. */
export interface Places {
  /**
   * Takes a place, or keeps one that the holder has; false when all are taken. A place that is never given back, as its
   * process was killed, is free again after `ttlMs`.
   */
  take(name: string, holder: string, most: number, ttlMs: number): Promise<boolean>;
  /** Gives a place back; does nothing when the holder has none. */
  leave(name: string, holder: string): Promise<void>;
}

/** A new state of a release, and how many transitions the kept one has: 0 when there is none yet. */
export interface ReleaseChange {
  readonly expected: number;
  readonly next: Release;
}

/**
 * The versions of every hosted policy and which of them clients get. A history only grows, so its length says which
 * state somebody has read.
 */
export interface Releases {
  get(policy: string, version: number): Promise<Release | undefined>;
  /** Of one policy, or of all: by policy, newest version first. */
  list(policy?: string): Promise<Release[]>;
  /** Policies that have releases, sorted. */
  policies(): Promise<string[]>;
  /**
   * Puts changes of one policy into effect, all or none; false when one of them was made from a state that is no
   * longer kept, or when two versions would be live. So one version hands the alias to the next in one step.
   *
   * @param changes at least one, all of the same policy, no version twice
   */
  compareAndSet(changes: readonly ReleaseChange[]): Promise<boolean>;
  /** The one version that clients of the policy get. */
  live(policy: string): Promise<Release | undefined>;
}

/** What a turn of a conversation must know of the one before: texts by name, kept for a while and only so many. */
export interface Turns {
  /**
   * Keeps a text for `ttlMs`, in place of what the name stood for.
   *
   * @param most how many are kept at once: those that would be forgotten first go
   */
  keep(name: string, text: string, ttlMs: number, most: number): Promise<void>;
  find(name: string): Promise<string | undefined>;
}

export interface Store {
  readonly kind: 'sqlite' | 'redis';
  readonly ledger: Ledger;
  readonly tallies: Tallies;
  readonly estimates: Estimates;
  readonly leases: Leases;
  readonly counters: Counters;
  readonly places: Places;
  readonly releases: Releases;
  readonly turns: Turns;
  /** Rejects with `store_unavailable` when it does not answer. */
  ping(): Promise<void>;
  close(): Promise<void>;
}
