/**
 * leave-one-out, one member at a time: the team without a random member, paired with what the whole team answered
 * live. One run a prompt.
 */
import type { ShadowDesign } from './shadow-design.ts';

export const leaveOneOutRotation: ShadowDesign = {
  name: 'leave-one-out',
  summary: 'the team without a random member, against the live answer: leave-one-out',
  design: 'loo',
  leastMembers: 2,
  draw(members, [uniform]) {
    const out = Math.floor(uniform * members);
    return { masks: [2 ** members - 1 - 2 ** out], propensity: 1 / members };
  },
};
