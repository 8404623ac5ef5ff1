/**
 * loo: the team, the team without each member, and each member alone. The last come for free where a protocol's
 * first answers are plain calls, for identical calls of one prompt are shared.
 */
import type { Design } from './design.ts';

export const leaveOneOut: Design = {
  name: 'loo',
  summary:
    'the team, without each member, and each alone (2n+1 runs a prompt): individual strength, leave-one-out',
  mostMembers: 20,
  masks(members) {
    const team = 2 ** members - 1;
    const masks = new Set([team]);
    for (let i = 0; i < members; i++) {
      masks.add(2 ** i);
      if (team > 2 ** i) masks.add(team - 2 ** i);
    }
    return [...masks].toSorted((a, b) => a - b);
  },
};
