/** full: every non-empty coalition. Estimates everything; 2ⁿ−1 runs a prompt. */
import type { Design } from './design.ts';

/** Beyond this a full panel is no longer a sensible thing to ask for. */
export const MOST_MEMBERS = 10;

export const full: Design = {
  name: 'full',
  summary: 'every coalition (2ⁿ−1 runs a prompt): individual strength, leave-one-out, Shapley',
  masks(members) {
    if (members > MOST_MEMBERS)
      throw new RangeError(`a full panel of ${members} members has ${2 ** members - 1} runs`);
    return Array.from({ length: 2 ** members - 1 }, (_, index) => index + 1);
  },
};
