/** One cell of the table, measured once: a load on a target, and what it cost the process in between. */
import { load, type Load } from './load.ts';
import type { ClientJob } from './client.ts';
import { cpuTime, machineMicros, ownMicros, residentMb } from './proc.ts';
import type { Server } from './servers.ts';

export interface Cell {
  /** The row: what is measured. */
  readonly target: string;
  readonly server: Server;
  /** False when the server is the upstream itself, whose CPU says nothing about a proxy. */
  readonly isProxy: boolean;
  readonly job: ClientJob;
}

export interface Sample extends Load {
  /** Of the proxy process, all threads, until nothing is left to do; NaN without a proxy. */
  readonly cpuMicros: number;
  /** Of its event loop alone. */
  readonly loopMicros: number;
  readonly rssMb: number;
  /** Cores that other programs of the machine took meanwhile. */
  readonly foreignCores: number;
}

export async function measure({ server, isProxy, job }: Cell, pids: readonly number[]): Promise<Sample> {
  const used = () => ownMicros() + pids.reduce((sum, pid) => sum + cpuTime(pid).allMicros, 0);
  const before = cpuTime(server.pid);
  const oursBefore = used();
  const machineBefore = machineMicros();
  const begun = performance.now();
  const seen = await load(job);
  await server.settled();
  const elapsedMicros = (performance.now() - begun) * 1000;
  const after = cpuTime(server.pid);
  const foreign = machineMicros() - machineBefore - (used() - oursBefore);
  const perRequest = (micros: number) => (isProxy ? micros / seen.requests : Number.NaN);
  return {
    ...seen,
    cpuMicros: perRequest(after.allMicros - before.allMicros),
    loopMicros: perRequest(after.firstMicros - before.firstMicros),
    rssMb: isProxy ? residentMb(server.pid) : Number.NaN,
    foreignCores: Math.max(0, foreign) / elapsedMicros,
  };
}
