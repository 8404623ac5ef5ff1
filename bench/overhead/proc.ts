/** What the kernel says about processes (Linux): CPU time of all threads and of the first one, memory. */
import { readFileSync } from 'node:fs';
import { cpus } from 'node:os';

/** Linux gives CPU times in ticks of 10 ms to user space, whatever the kernel's own clock. */
const TICK_MICROS = 10_000;

export interface CpuTime {
  /** All threads, those of the collector and the compiler included. */
  readonly allMicros: number;
  /** The first thread: in Node the event loop that answers. */
  readonly firstMicros: number;
}

/** Fields of a stat file after the name, which is in parentheses and may hold spaces. */
function statFields(path: string): number[] {
  const text = readFileSync(path, 'utf8');
  return text
    .slice(text.lastIndexOf(')') + 2)
    .split(' ')
    .map(Number);
}

function ticksOf(path: string): number {
  const fields = statFields(path);
  return fields[11]! + fields[12]!;
}

export function cpuTime(pid: number): CpuTime {
  return {
    allMicros: ticksOf(`/proc/${pid}/stat`) * TICK_MICROS,
    firstMicros: ticksOf(`/proc/${pid}/task/${pid}/stat`) * TICK_MICROS,
  };
}

export function residentMb(pid: number): number {
  const kilobytes = /^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  return Number(kilobytes) / 1024;
}

/** CPU time of this process and of the children that have ended. */
export function ownMicros(): number {
  const [user, system, childUser, childSystem] = statFields('/proc/self/stat').slice(11, 15);
  return (user! + system! + childUser! + childSystem!) * TICK_MICROS;
}

/** CPU time that the whole machine has used. */
export function machineMicros(): number {
  const [line = ''] = readFileSync('/proc/stat', 'utf8').split('\n');
  const [user, nice, system, , , irq, softIrq] = line.split(/\s+/).slice(1).map(Number);
  return (user! + nice! + system! + irq! + softIrq!) * TICK_MICROS;
}

export interface Machine {
  readonly cpu: string;
  readonly cores: number;
}

export function machine(): Machine {
  const all = cpus();
  return { cpu: all[0]?.model.trim() ?? 'unknown', cores: all.length };
}
