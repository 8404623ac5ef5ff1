/**
 * What the plan of a request has in common with others of its system: members, options, limits. It is most of an
 * entry's text, so stores keep it once, by the hash of its text, and entries name it.
 */
import { hash } from 'node:crypto';
import type { Plan } from '../contract/plan.ts';

export interface SharedPlan {
  readonly hash: string;
  /** JSON: a plan less its own fields. */
  readonly text: string;
}

/** The fields that a plan has for itself. */
type OwnPlan = Pick<
  Plan,
  'id' | 'seed' | 'replicate' | 'promptInstance' | 'cluster' | 'tenant' | 'parent' | 'resumes'
>;

const OWN: ReadonlySet<string> = new Set<keyof OwnPlan>([
  'id',
  'seed',
  'replicate',
  'promptInstance',
  'cluster',
  'tenant',
  'parent',
  'resumes',
]);

/** By its members: the last plan of a team and what it shares. Nearly always the next one shares the same. */
const latest = new WeakMap<Plan['members'], { readonly plan: Plan; readonly shared: SharedPlan }>();

export function ownPlan(plan: Plan): OwnPlan {
  const { id, seed, replicate, promptInstance, cluster, tenant, parent, resumes } = plan;
  return {
    id,
    seed,
    replicate,
    promptInstance,
    cluster,
    tenant,
    ...(parent !== undefined && { parent }),
    ...(resumes !== undefined && { resumes }),
  };
}

export function sharedPlan(plan: Plan): SharedPlan {
  const before = latest.get(plan.members);
  if (before && sharesAll(plan, before.plan)) return before.shared;
  const text = JSON.stringify(Object.fromEntries(Object.entries(plan).filter(([field]) => !OWN.has(field))));
  const shared = { hash: hash('sha256', text).slice(0, 32), text };
  latest.set(plan.members, { plan, shared });
  return shared;
}

/** Whether the shared fields are the very same values. */
function sharesAll(plan: Plan, other: Plan): boolean {
  for (const field in plan) {
    const name = field as keyof Plan;
    if (plan[name] !== other[name] && !OWN.has(name)) return false;
  }
  return true;
}

/** Shared plans of a batch, each once. */
export class PlanList {
  readonly all: SharedPlan[] = [];
  readonly #places = new Map<string, number>();

  /** Gives the plan's place among all. */
  add(plan: SharedPlan): number {
    const known = this.#places.get(plan.hash);
    if (known !== undefined) return known;
    this.#places.set(plan.hash, this.all.length);
    return this.all.push(plan) - 1;
  }
}
