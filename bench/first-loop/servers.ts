/** The model server of the experiments: the tiny team, in a process of its own. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

export interface TinyServer {
  readonly baseUrl: string;
  stop(): Promise<void>;
}

/** Starts the tiny team's server, whose packages must be installed (examples/tiny-team/README.md). */
export async function startTinyTeam(root: string): Promise<TinyServer> {
  const directory = join(root, 'examples/tiny-team');
  const child = spawn(process.execPath, ['server.ts'], {
    cwd: directory,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const gone = once(child, 'exit');
  const line = createInterface({ input: child.stdout })[Symbol.asyncIterator]().next();
  const first = await Promise.race([line, gone.then(() => undefined)]);
  if (!first || first.done) throw new Error('the tiny team did not start');
  const { baseUrl } = JSON.parse(first.value) as { baseUrl: string };
  return {
    baseUrl,
    async stop() {
      child.kill();
      await gone;
    },
  };
}
