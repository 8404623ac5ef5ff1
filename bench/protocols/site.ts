/** The processes of a measurement: the tiny team's server, and Consort in front of it; the meddler lives in this one. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { startTinyTeam } from '../first-loop/servers.ts';
import { Meddler } from './meddler.ts';
import { configOf } from './systems.ts';

export interface Site {
  /** Consort's, without the /v1. */
  readonly url: string;
  readonly meddler: Meddler;
  stop(): Promise<void>;
}

/** @param directory scratch space; the caller removes it */
export async function openSite(root: string, directory: string): Promise<Site> {
  const tiny = await startTinyTeam(root);
  const meddler = new Meddler(tiny.baseUrl);
  const config = join(directory, 'consort.yaml');
  await writeFile(config, JSON.stringify(configOf(tiny.baseUrl, await meddler.listen(), directory)));
  const child = spawn(process.execPath, ['src/main.ts', 'serve', '--json', '--config', config], {
    cwd: root,
    // A secret of its own each time would draw other marks and orders each time.
    env: {
      ...process.env,
      CONSORT_LOG_LEVEL: 'error',
      CONSORT_SECRET: 'bench of the protocols, in the open',
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const gone = once(child, 'exit');
  const line = createInterface({ input: child.stdout })[Symbol.asyncIterator]().next();
  const first = await Promise.race([line, gone.then(() => undefined)]);
  if (!first || first.done) throw new Error('Consort did not start');
  return {
    url: (JSON.parse(first.value) as { url: string }).url,
    meddler,
    async stop() {
      child.kill('SIGTERM');
      await gone;
      await meddler.close();
      await tiny.stop();
    },
  };
}
