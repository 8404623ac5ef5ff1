/** A real `consort serve` process for one test: its own directory, random ports, killable. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));

export interface Served {
  readonly url: string;
  readonly adminUrl: string;
  readonly process: ChildProcess;
  kill(signal: NodeJS.Signals): Promise<void>;
}

/** A place where a gateway lives and can be started again after it died. */
export class Site {
  readonly directory = mkdtempSync(join(tmpdir(), 'consort-site-'));
  #running: ChildProcess | undefined;

  constructor(config: unknown) {
    // JSON is YAML.
    writeFileSync(join(this.directory, 'consort.yaml'), JSON.stringify(config));
  }

  async serve(): Promise<Served> {
    const args = [main, 'serve', '--config', 'consort.yaml', '--json'];
    const { NODE_OPTIONS: _options, ...env } = process.env;
    const child = spawn(process.execPath, args, {
      cwd: this.directory,
      env: { ...env, CONSORT_LOG_LEVEL: 'error' },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    this.#running = child;
    const lines = createInterface({ input: child.stdout });
    const started = once(lines, 'line');
    const died = once(child, 'exit').then(() => Promise.reject(new Error('the gateway did not start')));
    died.catch(() => undefined);
    const [line] = await Promise.race([started, died]);
    const { url, adminUrl } = JSON.parse(String(line)) as { url: string; adminUrl: string };
    return {
      url,
      adminUrl,
      process: child,
      async kill(signal) {
        const gone = once(child, 'exit');
        child.kill(signal);
        await gone;
      },
    };
  }

  close(): void {
    this.#running?.kill('SIGKILL');
    rmSync(this.directory, { recursive: true, force: true });
  }
}
