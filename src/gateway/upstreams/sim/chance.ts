/** Counter-based draws: each is a hash of what it is for, so that concurrency cannot change a result. */
import { createHash } from 'node:crypto';
import { normalQuantile } from '../../../scoring/statistics/special-functions.ts';

/** Uniform in the open interval (0, 1). */
export function uniform(...key: readonly (string | number)[]): number {
  const bits = createHash('sha256').update(key.join('\0')).digest().readUIntBE(0, 6);
  return (bits + 0.5) / 2 ** 48;
}

export function normal(...key: readonly (string | number)[]): number {
  return normalQuantile(uniform(...key));
}
