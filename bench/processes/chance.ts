/** Chance by name: one seed gives the same choices, however the run goes. */
import { createHash } from 'node:crypto';

/** Uniform in [0, 1). */
export function chance(...what: readonly (string | number)[]): number {
  return createHash('sha256').update(what.join('/')).digest().readUIntBE(0, 6) / 2 ** 48;
}

/** One of them, or nothing when there is none. */
export function pick<T>(from: readonly T[], ...what: readonly (string | number)[]): T | undefined {
  return from[Math.floor(chance(...what) * from.length)];
}
