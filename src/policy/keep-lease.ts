/** A lease that is renewed until it is let go, with the fencing token that its holder writes under. */
import type { Clock } from '../contract/capabilities.ts';
import type { Leases } from '../contract/store.ts';
import type { WriterLease } from './trainers/trainer.ts';

/** A holder that dies is succeeded this much later. */
const TTL_MS = 30_000;

export interface KeptLease extends WriterLease {
  /** Gives it back, so that the next holder need not wait. */
  close(): Promise<void>;
}

/**
 * Takes the lease, or nothing while another holds it. It counts as held until its time is up by this process's clock,
 * so a process that stalls, or cannot reach the store, stops by itself before another may begin.
 *
 * @throws `store_unavailable`
 */
export async function keepLease(
  leases: Leases,
  name: string,
  holder: string,
  clock: Clock,
  ttlMs = TTL_MS,
): Promise<KeptLease | undefined> {
  let until = clock.elapsed() + ttlMs;
  const token = await leases.acquire(name, holder, ttlMs);
  if (token === undefined) return undefined;
  const renew = async () => {
    const next = clock.elapsed() + ttlMs;
    const renewed = await leases.acquire(name, holder, ttlMs);
    if (renewed === token) {
      until = next;
      return;
    }
    // It was lost in between: what was done under the old token must not go on, nor keep others from it.
    until = Number.NEGATIVE_INFINITY;
    clearInterval(timer);
    if (renewed !== undefined) await leases.release(name, holder);
  };
  const timer = setInterval(() => void renew().catch(() => undefined), ttlMs / 3);
  return {
    token,
    isHeld: () => clock.elapsed() < until,
    async close() {
      clearInterval(timer);
      until = Number.NEGATIVE_INFINITY;
      await leases.release(name, holder);
    },
  };
}
