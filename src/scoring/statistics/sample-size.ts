/** How many prompts a difference needs, and the smallest difference that some prompts can show. */
import { normalQuantile } from './special-functions.ts';

export interface Power {
  /** Two-sided level, e.g. 0.05. */
  readonly alpha: number;
  /** Chance to see a true difference, e.g. 0.8. */
  readonly power: number;
}

/**
 * Prompts (each run by both systems; per arm when `correlation` is 0) to see a difference `delta` of two success
 * rates near `rate`, whose outcomes on one prompt have `correlation`. Normal approximation.
 */
export function pairedSampleSize(
  delta: number,
  rate: number,
  correlation: number,
  { alpha, power }: Power,
): number {
  const z = normalQuantile(1 - alpha / 2) + normalQuantile(power);
  return Math.ceil((z * z * 2 * rate * (1 - rate) * (1 - correlation)) / (delta * delta));
}

/** The inverse: the smallest difference that `prompts` show with the wanted power. */
export function detectableDifference(
  prompts: number,
  rate: number,
  correlation: number,
  { alpha, power }: Power,
): number {
  const z = normalQuantile(1 - alpha / 2) + normalQuantile(power);
  return z * Math.sqrt((2 * rate * (1 - rate) * (1 - correlation)) / prompts);
}

/** Prompts for McNemar's test when a share `discordance` of the pairs differs (Connor 1987). */
export function discordantSampleSize(delta: number, discordance: number, { alpha, power }: Power): number {
  const level = normalQuantile(1 - alpha / 2) * Math.sqrt(discordance);
  const sure = normalQuantile(power) * Math.sqrt(discordance - delta * delta);
  return Math.ceil((level + sure) ** 2 / (delta * delta));
}
