/** A real redis-server for one test file: random port, its own directory, gone when the test is. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { accessSync, constants, mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { ConsortError } from '../../src/contract/errors.ts';

const run = promisify(execFile);

const READY_MS = 10_000;
const INSTALL_MS = 180_000;

export interface RedisOptions {
  /** Keep an append-only file, flushed on every write, so that a killed server comes back with its data. */
  readonly durable?: boolean;
  readonly args?: readonly string[];
}

export interface RedisServer {
  readonly url: string;
  readonly port: number;
  /** Sends a signal: SIGSTOP makes it deaf, SIGCONT heals it. */
  signal(signal: NodeJS.Signals): void;
  /** Kills it without a chance to save. */
  kill(): Promise<void>;
  /** Starts it again on the same port and directory. */
  start(): Promise<void>;
  /** Ends it for good and removes its directory. */
  stop(): Promise<void>;
}

/** Starts a server; the caller stops it. It also dies with this process. */
export async function startRedis(options: RedisOptions = {}): Promise<RedisServer> {
  const binary = await findRedis();
  const directory = mkdtempSync(join(tmpdir(), 'consort-redis-'));
  const durability = options.durable
    ? ['--appendonly', 'yes', '--appendfsync', 'always']
    : ['--appendonly', 'no'];
  const port = await freePort();
  const args = ['--port', `${port}`, '--bind', '127.0.0.1', '--dir', directory, '--save', '', ...durability];
  let child: ChildProcess | undefined;
  const killNow = () => void child?.kill('SIGKILL');
  process.once('exit', killNow);
  const start = async () => {
    child = spawn(binary, [...args, '--daemonize', 'no', ...(options.args ?? [])], { stdio: 'ignore' });
    await ready(port, child);
  };
  const kill = async () => {
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, 'exit');
    child.kill('SIGKILL');
    await gone;
  };
  await start();
  return {
    url: `redis://127.0.0.1:${port}`,
    port,
    signal: (signal) => void child?.kill(signal),
    kill,
    start,
    async stop() {
      await kill();
      process.removeListener('exit', killNow);
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

/** Path of redis-server, installed by the system's package manager if need be. */
async function findRedis(): Promise<string> {
  const found = onPath('redis-server') ?? onPath('valkey-server');
  if (found) return found;
  const reason = await install();
  const installed = onPath('redis-server');
  if (installed) return installed;
  throw new ConsortError('redis_missing', [reason]);
}

function onPath(program: string): string | undefined {
  const folders = (process.env['PATH'] ?? '').split(delimiter);
  return [...folders, '/usr/sbin', '/usr/local/bin', '/opt/homebrew/bin']
    .map((folder) => join(folder, program))
    .find((path) => {
      try {
        accessSync(path, constants.X_OK);
        return true;
      } catch {
        return false;
      }
    });
}

/** What to run, by package manager; apt waits when another test file installs at the same time. */
const installers: readonly {
  readonly program: string;
  readonly args: readonly string[];
  readonly root: boolean;
}[] = [
  {
    program: 'apt-get',
    args: ['-o', 'DPkg::Lock::Timeout=120', 'install', '-y', '--no-install-recommends', 'redis-server'],
    root: true,
  },
  { program: 'dnf', args: ['install', '-y', 'redis'], root: true },
  { program: 'apk', args: ['add', 'redis'], root: true },
  { program: 'brew', args: ['install', 'redis'], root: false },
];

/** Gives the reason when it did not work out. */
async function install(): Promise<string> {
  const installer = installers.find(({ program }) => onPath(program));
  if (!installer) return 'none of apt-get, dnf, apk and brew is here';
  if (installer.root && process.getuid?.() !== 0) return `${installer.program} needs root`;
  try {
    const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
    await run(installer.program, [...installer.args], { timeout: INSTALL_MS, env });
    return `${installer.program} installed no redis-server`;
  } catch (error) {
    return `${installer.program} failed: ${error instanceof Error ? error.message.slice(0, 300) : String(error)}`;
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  return typeof address === 'object' && address ? address.port : freePort();
}

/** Waits until the server answers PING with PONG: it listens, and has loaded its file. */
async function ready(port: number, child: ChildProcess): Promise<void> {
  const until = performance.now() + READY_MS;
  while (performance.now() < until) {
    if (child.exitCode !== null) break;
    if (await answersPing(port)) return;
    await sleep(10);
  }
  child.kill('SIGKILL');
  throw new ConsortError('store_unavailable', [`redis-server did not start on port ${port}`]);
}

async function answersPing(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  try {
    socket.write('PING\r\n');
    const [reply] = await once(socket, 'data', { signal: AbortSignal.timeout(1_000) });
    return String(reply).startsWith('+PONG');
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
