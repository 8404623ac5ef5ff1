/** What crosses the port between the gateway's thread and the database's. */
import type { Buried, FollowOptions, Lag, TallyEvent, TallyKey } from '../../contract/store.ts';
import type { SharedPlan } from '../shared-plan.ts';
import type { StoredRelease } from '../stored-release.ts';
import type { StoredDelivery, StoredEntry, StoredText } from './ledger.ts';
import type { Applied } from './tallies.ts';

/** The calls a thread answers. Entries and estimates travel as text and are decoded where they are used. */
export interface Calls {
  ping(): void;
  append(entries: readonly StoredEntry[], plans: readonly SharedPlan[]): void;
  read(pool: string, after: string, count: number): StoredDelivery[];
  follow(options: FollowOptions): StoredDelivery[];
  acknowledge(pool: string, group: string, ids: readonly string[]): void;
  outcome(id: string): StoredText | undefined;
  pools(): string[];
  trim(beforeMs: number, forgetBeforeMs: number): number;
  apply(event: TallyEvent): Applied;
  keys(filter: { readonly pool?: string; readonly system?: string }): TallyKey[];
  sums(key: TallyKey): Map<string, bigint>;
  lag(pool: string, group: string): Lag;
  bury(pool: string, group: string, id: string, reason: string): void;
  buried(pool: string): Buried[];
  acquire(name: string, holder: string, ttlMs: number): number | null;
  release(name: string, holder: string): void;
  reserve(name: string, amount: number, limit: number, ttlMs: number): boolean;
  settle(name: string, difference: number): void;
  total(name: string): number;
  take(name: string, holder: string, most: number, ttlMs: number): boolean;
  leave(name: string, holder: string): void;
  aRelease(policy: string, version: number): string | undefined;
  releases(policy: string | null): string[];
  policies(): string[];
  liveRelease(policy: string): string | undefined;
  changeReleases(policy: string, changes: readonly StoredRelease[]): boolean;
  keepTurn(name: string, text: string, ttlMs: number, most: number): void;
  findTurn(name: string): string | undefined;
  publish(system: string, task: string, source: string, body: string, fence: number): boolean;
  estimates(filter: { readonly system?: string; readonly task?: string }): string[];
  close(): void;
}

export type Method = keyof Calls;

/** One call, as it travels; the thread that made it knows the types. */
export interface Request {
  readonly id: number;
  readonly method: Method;
  readonly args: readonly unknown[];
}

export interface Failure {
  /** Whether the same call may succeed later: the file is busy, the disk full, the thread gone. */
  readonly unavailable: boolean;
  readonly detail: string;
}

export type Reply =
  { readonly id: number; readonly value: unknown } | { readonly id: number; readonly failure: Failure };

/** What the thread says: first whether it could open the file, then answers. */
export type ThreadMessage =
  { readonly opened: true } | { readonly refused: Failure } | { readonly replies: readonly Reply[] };
