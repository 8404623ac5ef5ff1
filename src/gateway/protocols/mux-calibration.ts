/** Fits mux: how likely a member is right when so many of its samples agree, from its own answers. */
import { isotonic } from '../../scoring/statistics/isotonic.ts';
import { mostAgreeing, winner } from './ballot.ts';
import type { SoloRow } from './solo.ts';

/** As many made-up cases, of which the share itself is right, stand beside what was seen. */
const PRIOR_CASES = 2;

/**
 * By alias the probabilities for 1, 2, … samples that agree: shares of what was right, drawn towards the share of
 * samples that agreed, and never falling.
 */
export function calibrationOf(
  rows: readonly SoloRow[],
  aliases: readonly string[],
  samples: number,
): Record<string, number[]> {
  return Object.fromEntries(aliases.map((alias) => [alias, curveOf(rows, alias, samples)]));
}

function curveOf(rows: readonly SoloRow[], alias: string, samples: number): number[] {
  const seen = Array.from({ length: samples }, () => ({ cases: 0, right: 0 }));
  for (const { task, answers } of rows) {
    const own = answers.get(alias) ?? [];
    const said = own.flatMap((answer) => answer.said ?? []);
    const place = seen[mostAgreeing(said, task) - 1];
    if (!place) continue;
    const won = winner(said, task, 'priority', () => 0);
    place.cases += 1;
    if (own.find((answer) => answer.said === won)?.isRight) place.right += 1;
  }
  return isotonic(
    seen.map(({ cases, right }, index) => ({
      value: (right + (PRIOR_CASES * (index + 1)) / samples) / (cases + PRIOR_CASES),
      weight: cases + PRIOR_CASES,
    })),
  );
}
