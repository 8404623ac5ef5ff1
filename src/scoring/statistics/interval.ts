/** A confidence interval or one look at a confidence sequence: `[low, high]`, in the unit of the estimate. */
export type Interval = readonly [low: number, high: number];

/** The part of `interval` inside `range`. */
export function clip([low, high]: Interval, [least, most]: Interval): Interval {
  return [Math.min(most, Math.max(least, low)), Math.max(least, Math.min(most, high))];
}

/** Half the width of an interval. */
export function halfWidth([low, high]: Interval): number {
  return (high - low) / 2;
}
