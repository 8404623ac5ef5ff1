/**
 * What Consort costs on top of a bare proxy, on this machine: all targets in one run, in interleaved rounds, against
 * one mock upstream. README.md beside says what is measured and what not to conclude.
 *
 * usage: node bench/overhead/run.ts [--rounds N] [--seconds N] [--delay MS] [--chunk-delay MS] [--check]
 *          [--profile DIR]
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { format, resolveConfig } from 'prettier';
import { loadedBy } from './load.ts';
import { measure, type Cell, type Sample } from './measure.ts';
import { median } from './numbers.ts';
import { machine } from './proc.ts';
import { cellName, page, type Results } from './report.ts';
import { Servers, type Server } from './servers.ts';

/** `--check`: what a request of `single` may cost, in requests of the bare proxy. */
const MOST = 3;
const MOST_REQUESTS = 200_000;
const CONCURRENCY = [1, 10, 100];
/** Before it is measured, every path runs for this long: cold code costs several times as much. */
const WARM_SECONDS = 3;

interface Setup {
  readonly servers: Servers;
  readonly upstream: Server;
  readonly nginx: Server | undefined;
  readonly bare: Server;
  readonly consort: Server;
}

async function start(servers: Servers, delayMs: number, chunkDelayMs: number): Promise<Setup> {
  const upstream = await servers.upstream(delayMs, chunkDelayMs);
  const nginx = await servers.nginx(upstream.url);
  const bare = await servers.bareProxy(upstream.url);
  return { servers, upstream, nginx, bare, consort: await servers.consort(upstream.url) };
}

type Path = Omit<Cell, 'job'> & { readonly model: string };

/** The rows of single requests, in the order of the table. */
function pathsOf({ upstream, nginx, bare, consort }: Setup): Path[] {
  const model = 'model';
  return [
    { target: 'direct', server: upstream, isProxy: false, model },
    ...(nginx ? [{ target: 'nginx', server: nginx, isProxy: true, model }] : []),
    { target: 'bare proxy', server: bare, isProxy: true, model },
    { target: 'Consort, plain model', server: consort, isProxy: true, model },
    { target: 'Consort, single', server: consort, isProxy: true, model: 'consort/single' },
  ];
}

function cellsOf(setup: Setup, seconds: number, isCheck: boolean): Cell[] {
  const cell = (
    { model, ...path }: Path,
    kind: Cell['job']['kind'],
    concurrency: number,
    duration = seconds,
  ) => ({
    ...path,
    job: { url: path.server.url, model, kind, concurrency, seconds: duration, most: MOST_REQUESTS },
  });
  const paths = pathsOf(setup);
  if (isCheck) return paths.filter(({ isProxy }) => isProxy).map((path) => cell(path, 'whole', 10));
  const { upstream, consort } = setup;
  const fan: Path = { target: 'bare client', server: upstream, isProxy: false, model: 'model' };
  const fuse: Path = { target: 'Consort, fuse of 3', server: consort, isProxy: true, model: 'consort/fuse' };
  return [
    ...CONCURRENCY.flatMap((concurrency) => paths.map((path) => cell(path, 'whole', concurrency))),
    ...paths.map((path) => cell(path, 'stream', 50, Math.max(3, seconds))),
    ...[1, 10].flatMap((concurrency) => [cell(fan, 'fan-out', concurrency), cell(fuse, 'team', concurrency)]),
  ];
}

async function warm(cells: readonly Cell[], pids: readonly number[]): Promise<void> {
  const seen = new Set<string>();
  for (const cell of cells) {
    const path = `${cell.target}\n${cell.job.kind}`;
    if (seen.has(path)) continue;
    seen.add(path);
    await measure({ ...cell, job: { ...cell.job, concurrency: 10, seconds: WARM_SECONDS } }, pids);
  }
}

async function rounds(cells: readonly Cell[], count: number, pids: readonly number[]): Promise<Results> {
  const samples = new Map<string, Sample[]>();
  for (let round = 1; round <= count; round++) {
    process.stderr.write(`round ${round} of ${count}\n`);
    for (const cell of cells) {
      const { target, job } = cell;
      const sample = await measure(cell, pids);
      if (sample.failed > 0) throw new Error(`${sample.failed} requests of ${target} failed`);
      const name = cellName(target, job.kind, job.concurrency);
      samples.set(name, [...(samples.get(name) ?? []), sample]);
    }
  }
  return samples;
}

/** The assertion: the median over rounds of the ratio within a round. */
function check(results: Results): boolean {
  const samplesOf = (target: string) => results.get(cellName(target, 'whole', 10))!;
  const bare = samplesOf('bare proxy');
  let isWithin = true;
  for (const target of ['bare proxy', 'Consort, plain model', 'Consort, single']) {
    const own = samplesOf(target);
    const ratio = median(own.map(({ cpuMicros }, round) => cpuMicros / bare[round]!.cpuMicros));
    const loop = median(own.map(({ loopMicros }, round) => loopMicros / bare[round]!.loopMicros));
    const [micros, loopMicros, foreign] = (['cpuMicros', 'loopMicros', 'foreignCores'] as const).map((key) =>
      median(own.map((sample) => sample[key])),
    );
    process.stdout.write(
      `${target}: ${micros!.toFixed(0)} µs of CPU a request (${ratio.toFixed(2)} ×), ` +
        `event loop ${loopMicros!.toFixed(0)} µs (${loop.toFixed(2)} ×), others took ${foreign!.toFixed(1)} cores\n`,
    );
    isWithin &&= ratio <= MOST;
  }
  return isWithin;
}

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '2' },
    delay: { type: 'string', default: '0' },
    'chunk-delay': { type: 'string', default: '5' },
    check: { type: 'boolean', default: false },
    profile: { type: 'string' },
  },
});
const directory = await mkdtemp(join(tmpdir(), 'consort-overhead-'));
const profile = values.profile === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${values.profile}`];
const servers = new Servers(directory, profile);
try {
  const setup = await start(servers, Number(values.delay), Number(values['chunk-delay']));
  const cells = cellsOf(setup, Number(values.seconds), values.check);
  await warm(cells, servers.pids);
  const results = await rounds(cells, Number(values.rounds), servers.pids);
  if (values.check) process.exitCode = check(results) ? 0 : 1;
  else {
    const text = page(results, {
      ...machine(),
      node: process.versions.node,
      date: new Date().toISOString().slice(0, 10),
      rounds: Number(values.rounds),
      seconds: Number(values.seconds),
      delayMs: Number(values.delay),
      chunkDelayMs: Number(values['chunk-delay']),
      loadedBy,
      hasNginx: setup.nginx !== undefined,
    });
    process.stdout.write(text);
    const path = fileURLToPath(new URL('../../docs/benchmarks.md', import.meta.url));
    await writeFile(path, await format(text, { ...(await resolveConfig(path)), filepath: path }));
  }
} finally {
  await servers.stop();
  await rm(directory, { recursive: true, force: true });
}
