/**
 * What the policy is trained for, as data: who runs, and what is rewarded. `team` is compositional RL; the others
 * are its controls, with the same rollouts, advantages and trainer. No objective runs a coalition without the policy:
 * what the team achieves without it is one number a prompt and cancels (docs/training.md, "What cancels").
 */
import { ConsortError } from '../contract/errors.ts';
import type { Plan } from '../contract/plan.ts';
import type { ObjectiveChoice } from '../contract/train-config.ts';
import type { Objective } from '../contract/trajectory.ts';

export interface ObjectiveRules {
  readonly summary: string;
  /** `team`: all members of the plan; `policy`: the policy as a coalition of one. */
  readonly coalition: 'team' | 'policy';
  /** `system`: the answer of the run; `own`: the last answer that the policy itself gave in it. */
  readonly rewarded: 'system' | 'own';
}

export const OBJECTIVES: Readonly<Record<Objective, ObjectiveRules>> = {
  team: {
    summary: 'the whole system runs and its final answer is rewarded',
    coalition: 'team',
    rewarded: 'system',
  },
  self: {
    summary: 'the whole system runs and the policy’s own last answer is rewarded',
    coalition: 'team',
    rewarded: 'own',
  },
  solo: {
    summary: 'the policy answers alone and is rewarded for it',
    coalition: 'policy',
    rewarded: 'system',
  },
};

/**
 * The objective of one group of a training run.
 *
 * @param index how many groups came before it; `mix` begins with a team group
 */
export function objectiveAt(choice: ObjectiveChoice, index: number): Objective {
  if (choice !== 'mix') return choice;
  return index % 2 === 0 ? 'team' : 'solo';
}

/**
 * The plan that an objective runs: the team's, or the same for a coalition of the policy alone.
 *
 * @param plan of the team
 * @throws coalition_invalid when the policy is not in the plan
 */
export function planFor(objective: Objective, plan: Plan, policy: string): Plan {
  const position = plan.members.findIndex(({ alias }) => alias === policy);
  const member = plan.members[position];
  if (!member) {
    const names = plan.members.map(({ alias }) => alias).join(', ');
    throw new ConsortError('coalition_invalid', [policy, plan.pool.id, names]);
  }
  if (OBJECTIVES[objective].coalition === 'team') return plan;
  return { ...plan, members: [member], mask: bitAt(plan.mask, position) };
}

/** The value of the mask's set bit at `position`, counted from the lowest set one. */
function bitAt(mask: number, position: number): number {
  let left = position;
  for (let bit = 1; bit <= mask; bit *= 2) {
    if (Math.floor(mask / bit) % 2 === 1 && left-- === 0) return bit;
  }
  throw new RangeError(`mask ${mask} has no member ${position}`);
}
