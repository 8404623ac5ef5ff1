/** Puts load on a URL, by wrk when it is there and does the job, else by `client.ts`. */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { ClientJob } from './client.ts';
import { KEY, requestBody } from './traffic.ts';

const run = promisify(execFile);

/** What a load saw. */
export interface Load {
  readonly requests: number;
  readonly seconds: number;
  readonly failed: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Only from our own client. */
  readonly firstByteMs?: number;
  readonly clientCpuMicros?: number;
}

const here = (name: string) => fileURLToPath(new URL(name, import.meta.url));

async function hasWrk(): Promise<boolean> {
  // wrk prints its version with exit code 1.
  const error: unknown = await run('wrk', ['--version']).catch((thrown: unknown) => thrown);
  return !(error instanceof Error && 'code' in error && error.code === 'ENOENT');
}

async function byWrk({ url, model, concurrency, seconds }: ClientJob): Promise<Load> {
  const flags = ['--threads', '1', '--connections', String(concurrency), '--duration', `${seconds}s`];
  const target = [`${url}/v1/chat/completions`, '--', KEY, requestBody(model, false)];
  const { stdout } = await run('wrk', [...flags, '--script', here('wrk.lua'), ...target]);
  return JSON.parse(stdout.trim().split('\n').at(-1)!) as Load;
}

async function byClient(job: ClientJob): Promise<Load> {
  const { stdout } = await run(process.execPath, [here('client.ts'), JSON.stringify(job)]);
  return JSON.parse(stdout) as Load;
}

const wrk = await hasWrk();

export const loadedBy = wrk ? 'wrk, one thread' : 'an undici client';

export const load = (job: ClientJob): Promise<Load> =>
  wrk && job.kind === 'whole' ? byWrk(job) : byClient(job);
