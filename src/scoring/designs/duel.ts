/**
 * duel: a random coalition against its complement on the same prompt. Sizes follow the law under which the mean of
 * the weighted differences is the centred Shapley value; n model calls a prompt when a run of S costs |S|.
 */
import { duelProbability, duelSizeLaw } from '../estimators/duel.ts';
import type { ShadowDesign } from './shadow-design.ts';

export const duel: ShadowDesign = {
  name: 'duel',
  summary: 'a random coalition and its complement: centred Shapley',
  design: 'duel',
  leastMembers: 2,
  draw(members, [bySize, byMask]) {
    const size = pickSize(duelSizeLaw(members), bySize);
    const ofSize: number[] = [];
    for (let mask = 1; mask < 2 ** members - 1; mask++) if (popcount(mask) === size) ofSize.push(mask);
    const mask = ofSize[Math.floor(byMask * ofSize.length)] ?? 1;
    const complement = 2 ** members - 1 - mask;
    // The same pair comes out of either half.
    const propensity = duelProbability(members, mask) + duelProbability(members, complement);
    return { masks: [mask, complement], propensity };
  },
};

/** @param law probability of size s at index s */
function pickSize(law: readonly number[], uniform: number): number {
  let left = uniform;
  for (const [size, probability] of law.entries()) {
    left -= probability;
    if (left < 0) return size;
  }
  return law.length - 1;
}

function popcount(mask: number): number {
  let count = 0;
  for (let rest = mask; rest > 0; rest = Math.floor(rest / 2)) count += rest % 2;
  return count;
}
