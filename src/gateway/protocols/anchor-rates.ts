/** Fits anchor: how often a partner would mend the anchor's answer, and how often spoil it. */
import { firstAnswers, type SoloRow } from './solo.ts';

/** One made-up case of each kind stands beside what was seen, so that no rate is 0 or 1. */
const PRIOR_CASES = 1;

function rateOf(happened: number, cases: number): number {
  return (happened + PRIOR_CASES) / (cases + 2 * PRIOR_CASES);
}

/**
 * By alias of a partner: of the anchor's wrong answers the share in which the partner alone is right, and of its right
 * ones the share in which the partner is wrong. Where the right one of two differing answers is not always chosen, the
 * true rates are lower.
 */
export function ratesOf(
  rows: readonly SoloRow[],
  anchor: string,
  partners: readonly string[],
): Record<string, { rescue: number; damage: number }> {
  const own = firstAnswers(rows, anchor).map((answer) => answer?.isRight === true);
  const ratesOfOne = (alias: string) => {
    const theirs = firstAnswers(rows, alias).map((answer) => answer?.isRight === true);
    const count = (mine: boolean, other: boolean) =>
      own.filter((isRight, index) => isRight === mine && theirs[index] === other).length;
    const [wrong, right] = [own.filter((isRight) => !isRight).length, own.filter(Boolean).length];
    return { rescue: rateOf(count(false, true), wrong), damage: rateOf(count(true, false), right) };
  };
  return Object.fromEntries(partners.map((alias) => [alias, ratesOfOne(alias)]));
}
