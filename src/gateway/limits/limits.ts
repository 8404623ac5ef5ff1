/**
 * Limits of keys, shared by all processes through the store: requests and tokens a minute, requests at once, money a
 * day. What a request is expected to take is reserved before it runs and given back when it ends; what its runs really
 * took is added as each ends. Minutes and days are those of UTC. While the store does not answer, this process applies
 * the limits alone, from zero, and what was spent meanwhile is added to the shared totals afterwards.
 */
import type { Clock } from '../../contract/capabilities.ts';
import type { KeyConfig } from '../../contract/auth-config.ts';
import { ConsortError } from '../../contract/errors.ts';
import type { Outcome } from '../../contract/outcome.ts';
import type { Counters, Places } from '../../contract/store.ts';
import type { Expected } from './expected.ts';
import { LocalTotals } from './local.ts';

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;
/** A store that answers later than this is not waited for. */
const PATIENCE_MS = 250;
/** How long a store that did not answer is left alone. */
const AWAY_MS = 1_000;
/** No limit: what was spent is added whatever the total. */
const UNBOUNDED = Number.MAX_SAFE_INTEGER;

export type KeyLimits = NonNullable<KeyConfig['limits']>;
type LimitName = keyof KeyLimits;

export interface LimitsParts {
  readonly totals: Totals;
  readonly clock: Clock;
  readonly keys: readonly Pick<KeyConfig, 'name' | 'limits'>[];
  /** Longest life of a request: a place that nobody gave back is free after it. */
  readonly mostMs: number;
  /** Whether requests of limited keys are refused while the store is away, instead of being counted here. */
  readonly refuseWithoutStore: boolean;
  readonly onRefused: (limit: LimitName) => void;
  /** Told when the shared totals are given up on for a while, and when they are back. */
  readonly onAway: (isAway: boolean) => void;
}

/** What is counted of keys, shared or not. */
export type Totals = Pick<Counters, 'reserve' | 'settle'> & Places;

/** One share of a total. */
interface Share {
  readonly limit: LimitName;
  readonly name: string;
  readonly amount: number;
  readonly most: number;
  readonly ttlMs: number;
  /** Milliseconds until a new window begins. */
  readonly waitMs: number;
}

type Spent = Pick<Share, 'limit' | 'name' | 'amount' | 'ttlMs'>;

/** What a request has of its key's limits. */
export interface Admission {
  /** Gives back what was reserved. Does nothing the second time. */
  readonly release: () => void;
}

const NOTHING: Admission = { release: () => undefined };

export class Limits {
  readonly #parts: LimitsParts;
  readonly #limits: ReadonlyMap<string, KeyLimits>;
  readonly #local: Totals;
  /** Money that the shared totals have yet to be told of, by name: of each key one a day. */
  readonly #unsettled = new Map<string, Spent>();
  #awayUntil = -Infinity;
  #isAway = false;

  constructor(parts: LimitsParts) {
    this.#parts = parts;
    this.#limits = new Map(parts.keys.flatMap(({ name, limits }) => (limits ? [[name, limits]] : [])));
    this.#local = new LocalTotals(parts.clock);
  }

  /** How many totals wait for the store. */
  get unsettled(): number {
    return this.#unsettled.size;
  }

  isLimited(tenant: string): boolean {
    return this.#limits.has(tenant);
  }

  /**
   * Reserves what the request is expected to take.
   *
   * @param holder a name of the request that no other has
   * @throws `rate_limited` or `key_budget_spent`, with the time after which it may be tried again; `store_unavailable`
   * where the configuration wants limited keys refused without the store
   */
  async admit(tenant: string, holder: string, expected: Expected): Promise<Admission> {
    const limits = this.#limits.get(tenant);
    if (!limits) return NOTHING;
    const shares = this.#sharesOf(tenant, limits, expected);
    const { concurrent } = limits;
    const place = `at-once/${tenant}`;
    const giveBack = (totals: Totals, granted: readonly Share[], hasPlace: boolean) => {
      if (concurrent !== undefined && hasPlace) totals.leave(place, holder).catch(() => undefined);
      for (const { name, amount } of granted) totals.settle(name, -amount).catch(() => undefined);
    };
    const reserve = async (totals: Totals) => {
      const [hasPlace, ...reserved] = await Promise.all([
        concurrent === undefined || totals.take(place, holder, concurrent, this.#parts.mostMs),
        ...shares.map(({ name, amount, most, ttlMs }) => totals.reserve(name, amount, most, ttlMs)),
      ]);
      return { totals, hasPlace, granted: shares.filter((_share, index) => reserved[index]) };
    };
    // What the store does after all, when it is no longer waited for, is taken back.
    const undo = (late: Awaited<ReturnType<typeof reserve>>) =>
      giveBack(late.totals, late.granted, late.hasPlace);
    const { totals, hasPlace, granted } = await this.#through(reserve, { undo });
    const refused = shares.find((share) => !granted.includes(share));
    if (!hasPlace || refused) {
      giveBack(totals, granted, hasPlace);
      throw this.#refusal(tenant, limits, hasPlace ? refused : undefined);
    }
    let isHeld = true;
    const release = () => {
      // A request stays counted for its minute; what stands for something unknown is given back.
      const unknown = granted.filter(({ limit }) => limit !== 'requestsPerMinute');
      if (isHeld) giveBack(totals, unknown, hasPlace);
      isHeld = false;
    };
    return { release };
  }

  /** Adds what a run took to its key's totals. Runs in the background are the operator's. */
  spent({ plan, usage, costMicros }: Outcome): void {
    const limits = plan.parent === undefined ? this.#limits.get(plan.tenant) : undefined;
    if (!limits) return;
    const taken = { inputTokens: usage.inputTokens + usage.outputTokens, costMicros };
    for (const { limit, name, amount, ttlMs } of this.#sharesOf(plan.tenant, limits, taken)) {
      if (limit !== 'requestsPerMinute' && amount > 0) void this.#add({ limit, name, amount, ttlMs });
    }
  }

  #sharesOf(tenant: string, limits: KeyLimits, { inputTokens, costMicros }: Expected): Share[] {
    const now = this.#parts.clock.now();
    const { requestsPerMinute, tokensPerMinute, usdPerDay } = limits;
    const share = (limit: LimitName, amount: number, most: number | undefined, windowMs: number): Share[] => {
      if (most === undefined) return [];
      const window = Math.floor(now / windowMs);
      const waitMs = (window + 1) * windowMs - now;
      const name = `limit/${limit}/${tenant}/${window}`;
      // Twice as long as the window, for those whose clocks are behind.
      return [{ limit, name, amount, most, ttlMs: 2 * windowMs, waitMs }];
    };
    const micros = usdPerDay === undefined ? undefined : Math.round(usdPerDay * 1e6);
    return [
      ...share('requestsPerMinute', 1, requestsPerMinute, MINUTE_MS),
      ...share('tokensPerMinute', inputTokens, tokensPerMinute, MINUTE_MS),
      ...share('usdPerDay', costMicros, micros, DAY_MS),
    ];
  }

  #refusal(tenant: string, limits: KeyLimits, share: Share | undefined): ConsortError {
    const limit = share?.limit ?? 'concurrent';
    this.#parts.onRefused(limit);
    const retryAfterMs = share?.waitMs ?? 1_000;
    if (limit === 'usdPerDay') {
      const needs = ((share?.amount ?? 0) / 1e6).toFixed(6);
      return new ConsortError('key_budget_spent', [tenant, limits.usdPerDay, needs], { retryAfterMs });
    }
    return new ConsortError('rate_limited', [tenant, `${limit}: ${limits[limit]}`], { retryAfterMs });
  }

  async #add(spent: Spent): Promise<void> {
    const { limit, name, amount, ttlMs } = spent;
    const add = async (totals: Totals) => {
      await totals.reserve(name, amount, UNBOUNDED, ttlMs);
      return totals !== this.#local;
    };
    const isShared = await this.#through(add, { always: true });
    // A minute that has gone by need not be told of.
    if (isShared || limit !== 'usdPerDay') return;
    const waiting = this.#unsettled.get(name)?.amount ?? 0;
    this.#unsettled.set(name, { ...spent, amount: waiting + amount });
  }

  /** Tells the store what it missed; what it does not take waits on. */
  async #flush(): Promise<void> {
    const waiting = [...this.#unsettled.values()];
    this.#unsettled.clear();
    for (const spent of waiting) await this.#add(spent);
  }

  /** Asks the shared totals, or, while they do not answer, those of this process. */
  async #through<T>(
    ask: (totals: Totals) => Promise<T>,
    { undo, always = false }: { readonly undo?: (late: T) => void; readonly always?: boolean },
  ): Promise<T> {
    if (this.#parts.clock.elapsed() >= this.#awayUntil) {
      let timer: NodeJS.Timeout | undefined;
      const asked = ask(this.#parts.totals);
      const late = new Promise<never>((_resolve, reject) => {
        timer = setTimeout(() => reject(new Error('late')), PATIENCE_MS);
      });
      try {
        const value = await Promise.race([asked, late]);
        this.#turn(false);
        return value;
      } catch {
        void asked.then(undo, () => undefined);
        this.#awayUntil = this.#parts.clock.elapsed() + AWAY_MS;
        this.#turn(true);
      } finally {
        clearTimeout(timer);
      }
    }
    if (this.#parts.refuseWithoutStore && !always) {
      throw new ConsortError('store_unavailable', ['limits of keys are kept there'], {
        retryAfterMs: AWAY_MS,
      });
    }
    return ask(this.#local);
  }

  #turn(isAway: boolean): void {
    if (this.#isAway === isAway) return;
    this.#isAway = isAway;
    this.#parts.onAway(isAway);
    if (!isAway) void this.#flush();
  }
}
