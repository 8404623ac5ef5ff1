/** Real `consort` processes for one test: their own directory, random ports, killable. */
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
  kill(signal: NodeJS.Signals): Promise<void>;
}

/** A place where a gateway lives and can be started again after it died. */
export class Site {
  readonly directory = mkdtempSync(join(tmpdir(), 'consort-site-'));
  readonly #running: ChildProcess[] = [];

  constructor(config: unknown) {
    // JSON is YAML.
    writeFileSync(join(this.directory, 'consort.yaml'), JSON.stringify(config));
  }

  /** Starts `consort serve`. */
  async serve(): Promise<Served> {
    const { child, line } = await this.#start('serve');
    const { url, adminUrl } = JSON.parse(line) as { url: string; adminUrl: string };
    return { url, adminUrl, kill: (signal) => end(child, signal) };
  }

  /** Starts `consort score`. */
  async score(): Promise<Omit<Served, 'url'>> {
    const { child, line } = await this.#start('score');
    const { adminUrl } = JSON.parse(line) as { adminUrl: string };
    return { adminUrl, kill: (signal) => end(child, signal) };
  }

  /** Starts `consort learn`. */
  async learn(): Promise<Omit<Served, 'url'>> {
    const { child, line } = await this.#start('learn');
    const { adminUrl } = JSON.parse(line) as { adminUrl: string };
    return { adminUrl, kill: (signal) => end(child, signal) };
  }

  async #start(command: string): Promise<{ child: ChildProcess; line: string }> {
    const args = [main, command, '--config', 'consort.yaml', '--json'];
    const { NODE_OPTIONS: _options, ...env } = process.env;
    const child = spawn(process.execPath, args, {
      cwd: this.directory,
      env: { ...env, CONSORT_LOG_LEVEL: 'error' },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    this.#running.push(child);
    const started = once(createInterface({ input: child.stdout }), 'line');
    const died = once(child, 'exit').then(() => Promise.reject(new Error(`${command} did not start`)));
    died.catch(() => undefined);
    const [line] = (await Promise.race([started, died])) as unknown[];
    return { child, line: String(line) };
  }

  close(): void {
    for (const child of this.#running) child.kill('SIGKILL');
    rmSync(this.directory, { recursive: true, force: true });
  }
}

async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  const gone = once(child, 'exit');
  child.kill(signal);
  await gone;
}
