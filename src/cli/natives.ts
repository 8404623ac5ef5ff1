/** Time, names and secrets as this process has them: handed to the rooms that must not reach for them. */
import { randomBytes, randomUUID } from 'node:crypto';
import { linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Clock, NewId } from '../contract/capabilities.ts';

export const clock: Clock = { now: () => Date.now(), elapsed: () => performance.now() };

/**
 * UUIDv7 (RFC 9562): 48 bits of Unix milliseconds, then the chance of a UUIDv4, which Node draws for many at once:
 * a system call for each id costs several times as much.
 */
export const newId: NewId = () => timePart(Date.now()) + randomUUID().slice(15);

/** The latest millisecond as ids begin with it: under load many share one. */
let latest = { ms: -1, text: '' };

function timePart(ms: number): string {
  if (latest.ms !== ms) {
    const time = ms.toString(16).padStart(12, '0');
    latest = { ms, text: `${time.slice(0, 8)}-${time.slice(8)}-7` };
  }
  return latest.text;
}

/**
 * The secret behind marks, orders and ties. Kept in a file, so that a seeded request gives the same answer after a
 * restart; replicas share one through the environment.
 */
export function readSecret(given: string | undefined, file: string): string {
  if (given) return given;
  mkdirSync(dirname(file), { recursive: true });
  const fresh = randomBytes(32).toString('hex');
  // Whole under its own name first: another process must never read, nor a killed one leave, half a secret.
  const draft = `${file}.${randomUUID()}`;
  writeFileSync(draft, fresh, { mode: 0o600 });
  try {
    linkSync(draft, file);
    return fresh;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') {
      return readFileSync(file, 'utf8').trim();
    }
    throw error;
  } finally {
    rmSync(draft);
  }
}
