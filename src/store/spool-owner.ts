/**
 * Whose spool a directory is. Its name holds the host, the process id and when the process started (Linux: boot and
 * clock ticks since; elsewhere nothing), so that a later process can tell the dead's from the living's. A spool of
 * another host is never touched: from here nobody can see whether that process lives.
 */
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';

const CLOSED = 'closed';

/** The directory name of a spool that this process opens; `instance` says to people which one it is. */
export function ownName(instance: string): string {
  const owner = [safe(hostname()), process.pid, startOf(process.pid) ?? 'unknown'];
  return [...owner, safe(instance), randomUUID().slice(0, 8)].join('_');
}

/** What a directory is called once its owner has closed it with entries left. */
export const closedName = (name: string): string => `${CLOSED}_${name}`;

/** Whether the directory's owner is gone for certain. */
export function isOrphan(name: string): boolean {
  const [host, pid, start, instance] = name.split('_');
  if (host === CLOSED) return true;
  if (host !== safe(hostname()) || instance === undefined || !/^\d+$/.test(pid ?? '')) return false;
  const now = startOf(Number(pid));
  if (start === 'unknown' || now === undefined) return !isAlive(Number(pid));
  return now !== start;
}

/** No underscore, no slash: the parts of a name stay apart and inside their directory. */
const safe = (part: string): string => part.replace(/[^A-Za-z0-9.-]/g, '-').slice(0, 64);

/** When a process started, as text that no other process with its id has; nothing where that cannot be known. */
function startOf(pid: number): string | undefined {
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    // The command name, in parentheses, may hold anything: the fields after it are counted from its end.
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const ticks = stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19];
    return ticks && `${boot.slice(0, 8)}-${ticks}`;
  } catch {
    return undefined;
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}
