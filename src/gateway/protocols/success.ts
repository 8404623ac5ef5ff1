/** Routing by predicted success: who is asked, and the heads that are fitted to what members were right at. */
import type { Member } from '../../contract/plan.ts';
import { logisticRidge, type LogisticModel } from '../../scoring/statistics/logistic.ts';
import { promptFeatures } from './prompt-features.ts';
import { firstAnswers, type SoloRow } from './solo.ts';

/** Strength of the penalty on heads that are fitted; rows of features have length 1. */
const RIDGE = 0.1;

/** The likeliest first; ties, and members about whom nothing is known, by the pool's order. */
export function likeliestFirst(
  team: readonly Member[],
  chanceOf: (member: Member) => number | undefined,
): Member[] {
  const chances = new Map(team.map((member) => [member, chanceOf(member) ?? -Infinity]));
  const chance = (member: Member) => chances.get(member) ?? -Infinity;
  return team.toSorted((a, b) => (chance(a) === chance(b) ? 0 : chance(b) - chance(a)));
}

/** A head for each member, from its first answer to each task. */
export function headsOf(
  rows: readonly SoloRow[],
  aliases: readonly string[],
  dimensions: number,
): LogisticModel[] {
  const features = rows.map(({ task }) => promptFeatures(task, dimensions));
  return aliases.map((alias) => {
    const labels = firstAnswers(rows, alias).map((answer) => answer?.isRight === true);
    return logisticRidge(features, labels, RIDGE);
  });
}

/** Four digits are more than the data can tell. */
export const rounded = (value: number): number => Number(value.toFixed(4));
