/** full: every non-empty coalition. Estimates everything; 2ⁿ−1 runs a prompt. */
import type { Design } from './design.ts';

export const full: Design = {
  name: 'full',
  summary: 'every coalition (2ⁿ−1 runs a prompt): individual strength, leave-one-out, Shapley',
  mostMembers: 10,
  masks: (members) => Array.from({ length: 2 ** members - 1 }, (_, index) => index + 1),
};
