/** Counters and places of this process alone, for as long as the shared ones do not answer. */
import type { Clock } from '../../contract/capabilities.ts';
import type { Totals } from './limits.ts';

interface Total {
  sum: number;
  readonly endsAt: number;
}

/** Bounded by the keys with limits: each has a name a window, and what has ended is dropped at the next reservation. */
export class LocalTotals implements Totals {
  readonly #clock: Clock;
  readonly #totals = new Map<string, Total>();
  readonly #places = new Map<string, Map<string, number>>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  reserve(name: string, amount: number, limit: number, ttlMs: number): Promise<boolean> {
    const now = this.#clock.elapsed();
    for (const [key, { endsAt }] of this.#totals) if (endsAt <= now) this.#totals.delete(key);
    const total = this.#totals.get(name) ?? { sum: 0, endsAt: now + ttlMs };
    if (total.sum + amount > limit) return Promise.resolve(false);
    total.sum += amount;
    this.#totals.set(name, total);
    return Promise.resolve(true);
  }

  settle(name: string, difference: number): Promise<void> {
    const total = this.#totals.get(name);
    if (total) total.sum += difference;
    return Promise.resolve();
  }

  take(name: string, holder: string, most: number, ttlMs: number): Promise<boolean> {
    const now = this.#clock.elapsed();
    const holders = this.#places.get(name) ?? new Map<string, number>();
    for (const [key, endsAt] of holders) if (endsAt <= now) holders.delete(key);
    if (!holders.has(holder) && holders.size >= most) return Promise.resolve(false);
    holders.set(holder, now + ttlMs);
    this.#places.set(name, holders);
    return Promise.resolve(true);
  }

  leave(name: string, holder: string): Promise<void> {
    this.#places.get(name)?.delete(holder);
    return Promise.resolve();
  }
}
