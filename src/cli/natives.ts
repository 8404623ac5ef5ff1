/** Time, names and secrets as this process has them: handed to the rooms that must not reach for them. */
import { randomBytes } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Clock, NewId } from '../contract/capabilities.ts';

export const clock: Clock = { now: () => Date.now(), elapsed: () => performance.now() };

/** UUIDv7 (RFC 9562): 48 bits of Unix milliseconds, then chance. */
export const newId: NewId = () => {
  const bytes = randomBytes(16);
  bytes.writeUIntBE(Date.now(), 0, 6);
  bytes[6] = 0x70 | (bytes[6]! & 0x0f);
  bytes[8] = 0x80 | (bytes[8]! & 0x3f);
  const hex = bytes.toString('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
};

/**
 * The secret behind marks, orders and ties. Kept in a file, so that a seeded request gives the same answer after a
 * restart; replicas share one through the environment.
 */
export function readSecret(given: string | undefined, file: string): string {
  if (given) return given;
  mkdirSync(dirname(file), { recursive: true });
  const fresh = randomBytes(32).toString('hex');
  try {
    writeFileSync(file, fresh, { flag: 'wx', mode: 0o600 });
    return fresh;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') {
      return readFileSync(file, 'utf8').trim();
    }
    throw error;
  }
}
