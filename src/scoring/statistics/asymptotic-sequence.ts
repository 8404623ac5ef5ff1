/**
 * Asymptotic confidence sequence for a mean (Waudby-Smith, Arbour, Sinha, Kennedy & Ramdas 2021): an interval that
 * may be looked at after every prompt. Needs only count and variance; any bounded or real-valued statistic. Start it
 * at 50 clusters, and with binary pairs at 10 discordant ones.
 */

/** rho^2 that makes the sequence tightest near `tightAt` observations. */
export function sequenceTuning(tightAt: number, alpha: number): number {
  const logAlpha = -2 * Math.log(alpha);
  return (logAlpha + Math.log(logAlpha + 1)) / tightAt;
}

/**
 * Half-width after `t` independent observations with variance `variance` at confidence `1 - alpha`, simultaneously
 * over time. `tightAt` (500 by default) must not depend on the observations.
 */
export function sequenceRadius(t: number, variance: number, alpha: number, tightAt = 500): number {
  if (!(t > 0)) throw new RangeError(`need at least one observation, got ${t}`);
  const spread = t * sequenceTuning(tightAt, alpha) + 1;
  const logTerm = Math.log(Math.sqrt(spread) / alpha);
  return Math.sqrt(variance) * Math.sqrt(((2 * spread) / (t * (spread - 1))) * logTerm);
}
