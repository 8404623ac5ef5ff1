/** A SkyRL server on the CPU, as a process that can be killed and started again on what it kept. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, openSync, readFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { delimiter, join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { request } from 'undici';

const START_MS = 180_000;

export interface ServerOptions {
  /** The virtual environment that `install.sh` made. */
  readonly environment: string;
  readonly model: string;
  /** Where its database, checkpoints and log are kept. */
  readonly directory: string;
  /** Datums in one pass: more are faster and take more memory. @default 4 */
  readonly microBatch?: number;
}

export const isInstalled = (environment: string): boolean => existsSync(join(environment, 'bin', 'uv'));

export class SkyRl {
  readonly #options: ServerOptions;
  #process: ChildProcess | undefined;
  #port = 0;

  constructor(options: ServerOptions) {
    this.#options = options;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** Starts it, at the same port as before, and waits until it answers. Gives how long that took. */
  async start(): Promise<number> {
    const began = performance.now();
    this.#port ||= await freePort();
    const { environment, directory } = this.#options;
    const root = resolve(environment);
    const log = openSync(join(directory, 'server.log'), 'a');
    this.#process = spawn(join(root, 'bin', 'uv'), this.#arguments(), {
      cwd: directory,
      // A group of its own: the API, its launcher and its engine end together.
      detached: true,
      stdio: ['ignore', log, log],
      env: {
        ...process.env,
        VIRTUAL_ENV: root,
        PATH: `${join(root, 'bin')}${delimiter}${process.env['PATH'] ?? ''}`,
        JAX_PLATFORMS: 'cpu',
        HF_HUB_OFFLINE: '1',
      },
    });
    closeSync(log);
    while (!(await this.#isUp())) {
      if (this.#process.exitCode !== null || performance.now() - began > START_MS) {
        const text = readFileSync(join(directory, 'server.log'), 'utf8');
        throw new Error(`the server did not start:\n${text.slice(-2_000)}`);
      }
      await sleep(500);
    }
    return performance.now() - began;
  }

  #arguments(): string[] {
    const { model, directory, microBatch = 4 } = this.#options;
    const backend = { max_lora_adapters: 5, max_lora_rank: 8, train_micro_batch_size: microBatch };
    const flags = {
      'base-model': resolve(model),
      backend: 'jax',
      'backend-config': JSON.stringify(backend),
      'checkpoints-base': resolve(directory, 'checkpoints'),
      'database-url': `sqlite:///${resolve(directory, 'tinker.db')}`,
      host: '127.0.0.1',
      port: String(this.#port),
    };
    const named = Object.entries(flags).flatMap(([name, value]) => [`--${name}`, value]);
    // It finds its engine by the words of this command line.
    return ['run', '--no-project', '-m', 'skyrl.tinker.api', ...named];
  }

  async #isUp(): Promise<boolean> {
    try {
      const { statusCode, body } = await request(`${this.url}/api/v1/healthz`, { headersTimeout: 2_000 });
      await body.dump();
      return statusCode === 200;
    } catch {
      return false;
    }
  }

  /** All of its processes at once, as a power cut would. */
  async kill(): Promise<void> {
    const running = this.#process;
    this.#process = undefined;
    if (running?.pid === undefined || running.exitCode !== null) return;
    const gone = once(running, 'exit');
    process.kill(-running.pid, 'SIGKILL');
    await gone;
  }
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, 'close');
  return port;
}
