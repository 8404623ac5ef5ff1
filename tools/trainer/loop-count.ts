/** What a run of the loop left behind, counted from its files and its store, by code that shares nothing with the learner. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Outcome } from '../../src/contract/outcome.ts';
import type { Release } from '../../src/contract/release.ts';
import type { Store } from '../../src/contract/store.ts';
import { readGroups } from '../../src/policy/shards.ts';

interface Entry {
  readonly kind: string;
  readonly step: number;
  readonly groups: readonly string[];
}

/** The groups of every step that the journal says was taken, in the order of the steps. */
export function trainedGroups(directory: string): string[] {
  const text = readFileSync(join(directory, 'journal.ndjson'), 'utf8').trim();
  const entries = text.split('\n').map((line) => JSON.parse(line) as Entry);
  const groups = new Map<number, readonly string[]>();
  const taken = new Set<number>();
  for (const { kind, step, groups: own } of entries) {
    // A step is announced again for each model that it is sent to, and must stay the same.
    if (kind === 'step') groups.set(step, own);
    if (kind === 'stepped') taken.add(step);
    if (kind === 'dropped') throw new Error(`step ${step} was dropped`);
  }
  return [...taken].toSorted((a, b) => a - b).flatMap((step) => groups.get(step) ?? []);
}

/** The groups that were to be trained on, in the order in which they were collected. */
export async function acceptedGroups(directory: string): Promise<string[]> {
  const groups = await Array.fromAsync(readGroups(join(directory, 'groups')));
  return groups.filter(({ filter }) => filter.accepted).map(({ groupId }) => groupId);
}

/**
 * The versions of a policy that answered, in the order of requests: one name a request, that of the weights in the fleet,
 * and one more for each call that was made to others than the plan's.
 */
export async function versionsHeard({ ledger }: Store, policy: string): Promise<string[][]> {
  const heard: { at: number; versions: string[] }[] = [];
  for (const pool of await ledger.pools()) {
    for (let after = '0-0'; ;) {
      const entries = await ledger.read(pool, after, 500);
      if (entries.length === 0) break;
      after = entries.at(-1)?.id ?? after;
      for (const { entry } of entries) {
        if (entry.kind === 'outcome') heard.push(versionsIn(entry.outcome, policy));
      }
    }
  }
  return heard.toSorted((a, b) => a.at - b.at).map(({ versions }) => versions);
}

function versionsIn({ plan, calls, startedAt }: Outcome, policy: string): { at: number; versions: string[] } {
  const member = plan.members.find(({ alias }) => alias === policy);
  const strangers = calls
    .filter((call) => call.member === policy && call.revision !== member?.revision)
    .map(({ revision }) => revision);
  return { at: startedAt, versions: [member?.model ?? 'none', ...new Set(strangers)] };
}

export const wasLive = ({ history }: Release): boolean => history.some(({ to }) => to === 'live');

/** Nats a token between trainer and fleet, as the probe of a release found it; NaN when it was not probed. */
export function gapOf({ history }: Release): number {
  const reason = history.find(({ to }) => to === 'probed')?.reason ?? '';
  return Number(/^at most (?<gap>[\d.]+) nats/.exec(reason)?.groups?.['gap'] ?? NaN);
}
