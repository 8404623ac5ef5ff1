/**
 * Augmented inverse-propensity scores (Robins, Rotnitzky & Zhao 1994): an unbiased value for every prompt though only
 * some were observed, for any prediction fitted on earlier data, as long as the logged propensity is the true one.
 */
export interface LoggedOutcome {
  /** Probability, at decision time, that this coalition would be run; in (0, 1]. */
  readonly propensity: number;
  /** The reward, or null when the coalition was not run on this prompt. */
  readonly reward: number | null;
  /** Predicted reward, from earlier data only. */
  readonly prediction: number;
}

/** One score a prompt; their mean estimates the coalition's value. RangeError for a propensity outside (0, 1]. */
export function augmentedScores(rows: readonly LoggedOutcome[]): number[] {
  return rows.map(({ propensity, reward, prediction }) => {
    if (!(propensity > 0 && propensity <= 1))
      throw new RangeError(`propensity must lie in (0, 1], got ${propensity}`);
    return reward === null ? prediction : prediction + (reward - prediction) / propensity;
  });
}
