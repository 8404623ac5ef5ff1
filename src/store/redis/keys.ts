/**
 * Every key, in one place. What belongs to a pool carries its hash tag, so that a script touches one cluster slot;
 * `docs/reference/data-model.md` explains what each holds.
 */
import type { TallyKey } from '../../contract/store.ts';
import { escapePart, joinName, tallyName } from '../tally-name.ts';

const inPool = (pool: string, rest: string): string => `consort:{${escapePart(pool)}}:${rest}`;

/** Set of all pools. */
export const POOLS = 'consort:pools';
/** Set of all systems that have estimates. */
export const SYSTEMS = 'consort:systems';

/** The pool that an outcome belongs to. */
export const pointerKey = (outcome: string): string => `consort:outcome:${outcome}`;
/** Estimates of a system, by task and source. */
export const estimatesKey = (system: string): string => `consort:{estimates:${escapePart(system)}}:bodies`;
/** The lease tokens under which a system's estimates were published. */
export const fencesKey = (system: string): string => `consort:{estimates:${escapePart(system)}}:fences`;
export const estimatesField = (task: string, source: string): string =>
  `${escapePart(task)}:${escapePart(source)}`;

export const leaseKey = (name: string): string => `consort:{lease:${escapePart(name)}}:holder`;
export const leaseTokenKey = (name: string): string => `consort:{lease:${escapePart(name)}}:token`;

export const counterKey = (name: string): string => `consort:counter:${escapePart(name)}`;

/** Who has one of so many places, by the time at which it is free again. */
export const placesKey = (name: string): string => `consort:places:${escapePart(name)}`;

/** Texts that turns of conversations need of the ones before, by name. */
export const TURNS = 'consort:{turns}:texts';
/** When each of them is forgotten. */
export const TURNS_END = 'consort:{turns}:ends';

/** Set of all policies that have releases. */
export const POLICIES = 'consort:policies';
const inPolicy = (policy: string, rest: string) => `consort:{releases:${escapePart(policy)}}:${rest}`;
/** A policy's releases, by version. */
export const releasesKey = (policy: string): string => inPolicy(policy, 'bodies');
/** How many transitions each of them has. */
export const transitionsKey = (policy: string): string => inPolicy(policy, 'transitions');
/** The one that is live: its version and its body, so that one read finds both. */
export const liveKey = (policy: string): string => inPolicy(policy, 'live');

export const streamKey = (pool: string): string => inPool(pool, 'entries');
/** What plans share, by hash. */
export const plansKey = (pool: string): string => inPool(pool, 'plans');
/** When each of them was last used, in the milliseconds of entry ids. */
export const plansUsedKey = (pool: string): string => inPool(pool, 'plans-used');
/** Entries that were set aside, with the reason. */
export const buriedKey = (pool: string): string => inPool(pool, 'buried');
/** The id of the entry that holds an outcome. */
export const markerKey = (pool: string, outcome: string): string => inPool(pool, `outcome:${outcome}`);
/** Names of the pool's sums. */
export const namesKey = (pool: string): string => inPool(pool, 'tallies');
export const sumsKey = (key: TallyKey): string => inPool(key.pool, `sums:${tallyName(key)}`);
export const joinKey = (key: TallyKey, promptInstance: string): string =>
  inPool(key.pool, `join:${joinName(key, promptInstance)}`);
