/** The processes of one run: started in order, stopped in reverse, each with a URL of its own on loopback. */
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { KEY } from './traffic.ts';

export interface Server {
  readonly url: string;
  readonly pid: number;
  /** Resolves when the work that requests have left behind is done. */
  readonly settled: () => Promise<void>;
}

const DRAFTERS = ['a', 'b', 'c'];
const nothing = () => Promise.resolve();
const here = (name: string) => fileURLToPath(new URL(name, import.meta.url));

/** The children of this run. */
export class Servers {
  readonly #directory: string;
  readonly #children: ChildProcess[] = [];
  /** Flags for the Node of the proxies, to profile them. */
  readonly #nodeFlags: readonly string[];

  /** @param directory scratch space; the caller removes it */
  constructor(directory: string, nodeFlags: readonly string[]) {
    this.#directory = directory;
    this.#nodeFlags = nodeFlags;
  }

  get pids(): number[] {
    return this.#children.flatMap(({ pid }) => pid ?? []);
  }

  async upstream(delayMs: number, chunkDelayMs: number): Promise<Server> {
    const flags = ['--delay', String(delayMs), '--chunk-delay', String(chunkDelayMs)];
    const { pid, line } = await this.#node([here('upstream.ts'), ...flags]);
    return { pid, url: urlOf(line), settled: nothing };
  }

  async bareProxy(upstream: string): Promise<Server> {
    const { pid, line } = await this.#node([...this.#nodeFlags, here('bare-proxy.ts'), upstream]);
    return { pid, url: urlOf(line), settled: nothing };
  }

  async consort(upstream: string): Promise<Server> {
    const config = join(this.#directory, 'consort.yaml');
    await writeFile(config, JSON.stringify(consortConfig(upstream, this.#directory)));
    const main = here('../../src/main.ts');
    const { pid, line } = await this.#node([...this.#nodeFlags, main, 'serve', '--json', '--config', config]);
    const { adminUrl } = JSON.parse(line) as { adminUrl: string };
    return { pid, url: urlOf(line), settled: () => drained(adminUrl) };
  }

  /** Nothing when there is no nginx on the PATH. */
  async nginx(upstream: string): Promise<Server | undefined> {
    if (!(await promisify(execFile)('nginx', ['-v']).then(Boolean, () => false))) return undefined;
    const port = await freePort();
    const root = join(this.#directory, 'nginx');
    const config = join(root, 'nginx.conf');
    await mkdir(root, { recursive: true });
    await writeFile(config, nginxConfig(upstream, port));
    const child = spawn('nginx', ['-p', root, '-c', config, '-e', 'stderr'], { stdio: 'ignore' });
    this.#children.push(child);
    const url = `http://127.0.0.1:${port}`;
    for (let attempt = 0; attempt < 50; attempt++) {
      if (
        await fetch(url, { method: 'POST' }).then(
          () => true,
          () => false,
        )
      ) {
        return { pid: child.pid!, url, settled: nothing };
      }
      await sleep(50);
    }
    throw new Error('nginx did not start');
  }

  async stop(): Promise<void> {
    for (const child of this.#children.toReversed()) {
      if (child.exitCode !== null) continue;
      const exit = once(child, 'exit');
      child.kill('SIGTERM');
      const late = setTimeout(() => child.kill('SIGKILL'), 10_000);
      await exit;
      clearTimeout(late);
    }
  }

  async #node(args: readonly string[]): Promise<{ pid: number; line: string }> {
    const env = { ...process.env, CONSORT_LOG_LEVEL: 'error' };
    const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'inherit'] });
    this.#children.push(child);
    for await (const line of createInterface(child.stdout)) return { pid: child.pid!, line };
    throw new Error(`${args.join(' ')} ended before it listened`);
  }
}

const urlOf = (line: string) => (JSON.parse(line) as { url: string }).url;

/** Everything on that a deployment has on: a key, validation, metrics, spool and ledger. */
function consortConfig(upstream: string, directory: string): object {
  const ids = ['model', ...DRAFTERS];
  const models = ids.map((id) => ({
    id,
    provider: 'openai-compatible',
    baseUrl: `${upstream}/v1`,
    model: 'bench-model',
    price: { inputUsdPerMTok: 0.1, outputUsdPerMTok: 0.4 },
  }));
  return {
    server: { port: 0, adminPort: 0 },
    store: { url: `sqlite:${join(directory, 'consort.db')}`, spoolDirectory: join(directory, 'spool') },
    auth: {
      required: true,
      keys: [{ name: 'bench', sha256: createHash('sha256').update(KEY).digest('hex') }],
    },
    models,
    pools: [
      { id: 'one', members: ['model'] },
      { id: 'three', members: DRAFTERS },
    ],
    systems: [
      { id: 'single', pool: 'one', protocol: 'single' },
      { id: 'fuse', pool: 'three', protocol: 'fuse' },
    ],
  };
}

/** One process, kept-alive connections to the upstream, no buffering: what a tuned reverse proxy does. */
function nginxConfig(upstream: string, port: number): string {
  return `
daemon off;
master_process off;
pid nginx.pid;
error_log stderr error;
events { worker_connections 2048; }
http {
  access_log off;
  client_body_temp_path body;
  proxy_temp_path proxy;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  keepalive_requests 1000000000;
  upstream mock { server ${new URL(upstream).host}; keepalive 256; keepalive_requests 1000000000; }
  server {
    listen 127.0.0.1:${port} backlog=1024;
    location / {
      proxy_pass http://mock;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
    }
  }
}
`;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  if (address === null || typeof address === 'string') throw new TypeError('not a TCP server');
  return address.port;
}

/** Waits until the ledger has every outcome, and a moment longer for the scorer. */
async function drained(adminUrl: string): Promise<void> {
  for (let attempt = 0; attempt < 100; attempt++) {
    const response = await fetch(`${adminUrl}/metrics`);
    const entries = /^consort_ledger_spool_entries (\d+)$/m.exec(await response.text())?.[1];
    if (entries === undefined) throw new Error('no consort_ledger_spool_entries in /metrics');
    if (entries === '0') break;
    await sleep(100);
  }
  await sleep(300);
}
