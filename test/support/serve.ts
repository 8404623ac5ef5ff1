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
  /** Resolves to the exit code; null when a signal killed it. */
  readonly gone: Promise<number | null>;
}

export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Running {
  readonly ended: Promise<Ended>;
  kill(signal: NodeJS.Signals): void;
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
    return { url, adminUrl, kill: (signal) => end(child, signal), gone: goneOf(child) };
  }

  /** Starts `consort score`. */
  async score(): Promise<Omit<Served, 'url'>> {
    const { child, line } = await this.#start('score');
    const { adminUrl } = JSON.parse(line) as { adminUrl: string };
    return { adminUrl, kill: (signal) => end(child, signal), gone: goneOf(child) };
  }

  /** Starts `consort learn`. */
  async learn(): Promise<Omit<Served, 'url'>> {
    const { child, line } = await this.#start('learn');
    const { adminUrl } = JSON.parse(line) as { adminUrl: string };
    return { adminUrl, kill: (signal) => end(child, signal), gone: goneOf(child) };
  }

  /** Runs a command to its end; `kill` gives it a signal meanwhile. */
  run(...args: readonly string[]): Running {
    const child = this.#spawn(args, 'pipe');
    const text = { stdout: '', stderr: '' };
    for (const name of ['stdout', 'stderr'] as const) {
      child[name]?.setEncoding('utf8').on('data', (part: string) => (text[name] += part));
    }
    const ended = once(child, 'close').then(([code]) => ({ code: code as number | null, ...text }));
    return { ended, kill: (signal) => void child.kill(signal) };
  }

  async #start(command: string): Promise<{ child: ChildProcess; line: string }> {
    const child = this.#spawn([command, '--json'], 'inherit');
    if (!child.stdout) throw new TypeError('no output');
    const started = once(createInterface({ input: child.stdout }), 'line');
    const died = once(child, 'exit').then(() => Promise.reject(new Error(`${command} did not start`)));
    died.catch(() => undefined);
    const [line] = (await Promise.race([started, died])) as unknown[];
    return { child, line: String(line) };
  }

  #spawn([command = '', ...args]: readonly string[], stderr: 'pipe' | 'inherit'): ChildProcess {
    const { NODE_OPTIONS: _options, ...env } = process.env;
    const child = spawn(process.execPath, [main, command, '--config', 'consort.yaml', ...args], {
      cwd: this.directory,
      env: { ...env, CONSORT_LOG_LEVEL: 'error' },
      stdio: ['ignore', 'pipe', stderr],
    });
    this.#running.push(child);
    return child;
  }

  close(): void {
    for (const child of this.#running) child.kill('SIGKILL');
    rmSync(this.directory, { recursive: true, force: true });
  }
}

async function goneOf(child: ChildProcess): Promise<number | null> {
  const [code] = (await once(child, 'exit')) as [number | null];
  return code;
}

async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  const gone = once(child, 'exit');
  child.kill(signal);
  await gone;
}
