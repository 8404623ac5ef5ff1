/** The page of numbers: docs/benchmarks.md is written by the run and never by hand. */
import type { ClientJob } from './client.ts';
import type { Sample } from './measure.ts';
import { median } from './numbers.ts';
import type { Machine } from './proc.ts';
import { CHUNKS } from './traffic.ts';

/** Samples of each cell, one a round, in the order in which they were measured. */
export type Results = ReadonlyMap<string, readonly Sample[]>;

/** A cell's name among the results. */
export function cellName(target: string, kind: ClientJob['kind'], concurrency: number): string {
  return `${target}\n${kind}\n${concurrency}`;
}

export interface Facts extends Machine {
  readonly node: string;
  readonly date: string;
  readonly rounds: number;
  readonly seconds: number;
  readonly delayMs: number;
  readonly chunkDelayMs: number;
  readonly loadedBy: string;
  readonly hasNginx: boolean;
}

/** The median over rounds of a figure of a sample, given the samples of other cells in the same round. */
function over(samples: readonly Sample[], figure: (sample: Sample, round: number) => number): number {
  return median(samples.map(figure));
}

/** At most three digits that mean something; a dash for what has no value. */
function shown(value: number, digits = 0): string {
  return Number.isFinite(value) ? value.toFixed(digits) : '–';
}

interface Group {
  readonly kind: ClientJob['kind'];
  readonly concurrency: number;
}

/** One line of cells a row; `columns` draws what follows the name. */
function rows(
  results: Results,
  { kind, concurrency }: Group,
  columns: (samples: readonly Sample[], isFloor: boolean) => string[],
): string[] {
  const suffix = `\n${kind}\n${concurrency}`;
  return [...results.keys()]
    .filter((name) => name.endsWith(suffix))
    .map((name, index) => {
      const target = name.split('\n')[0]!;
      return `| ${[target, concurrency, ...columns(results.get(name)!, index === 0)].join(' | ')} |`;
    });
}

function table(head: readonly string[], lines: readonly string[]): string {
  return [`| ${head.join(' | ')} |`, `|${head.map(() => '---|').join('')}`, ...lines].join('\n');
}

const times = (value: number) => (Number.isFinite(value) ? `${value.toFixed(2)} ×` : '–');

function wholeTable(results: Results): string {
  const lines = [1, 10, 100].flatMap((concurrency) => {
    const group: Group = { kind: 'whole', concurrency };
    const floor = results.get(cellName('direct', 'whole', concurrency))!;
    const bare = results.get(cellName('bare proxy', 'whole', concurrency))!;
    return rows(results, group, (samples, isFloor) => {
      const added = (key: 'p50Ms' | 'p99Ms') =>
        over(samples, (sample, round) => sample[key] - (isFloor ? 0 : floor[round]![key]));
      return [
        shown(over(samples, ({ requests, seconds }) => requests / seconds)),
        isFloor
          ? `(${shown(added('p50Ms'), 2)} / ${shown(added('p99Ms'), 2)} itself)`
          : `${shown(added('p50Ms'), 2)} / ${shown(added('p99Ms'), 2)}`,
        shown(over(samples, ({ cpuMicros }) => cpuMicros)),
        times(over(samples, ({ cpuMicros }, round) => cpuMicros / bare[round]!.cpuMicros)),
        shown(over(samples, ({ loopMicros }) => loopMicros)),
        times(over(samples, ({ loopMicros }, round) => loopMicros / bare[round]!.loopMicros)),
        shown(over(samples, ({ rssMb }) => rssMb)),
      ];
    });
  });
  const head = ['target', 'c', 'requests/s', 'added p50 / p99 ms', 'CPU µs', 'to bare', 'loop µs', 'to bare'];
  return table([...head, 'RSS MB'], lines);
}

function streamTable(results: Results): string {
  const floor = results.get(cellName('direct', 'stream', 50))!;
  const bare = results.get(cellName('bare proxy', 'stream', 50))!;
  const lines = rows(results, { kind: 'stream', concurrency: 50 }, (samples, isFloor) => [
    isFloor
      ? `(${shown(
          over(samples, ({ firstByteMs = Number.NaN }) => firstByteMs),
          2,
        )} itself)`
      : shown(
          over(samples, ({ firstByteMs = Number.NaN }, round) => firstByteMs - floor[round]!.firstByteMs!),
          2,
        ),
    shown(
      over(samples, ({ cpuMicros }) => cpuMicros / CHUNKS),
      1,
    ),
    times(over(samples, ({ cpuMicros }, round) => cpuMicros / bare[round]!.cpuMicros)),
    times(over(samples, ({ loopMicros }, round) => loopMicros / bare[round]!.loopMicros)),
  ]);
  return table(
    ['target', 'c', 'added first byte p50 ms', 'CPU µs a chunk', 'to bare', 'loop to bare'],
    lines,
  );
}

function fuseTable(results: Results): string {
  const lines = [1, 10].flatMap((concurrency) => {
    const floor = results.get(cellName('bare client', 'fan-out', concurrency))!;
    const fuse = results.get(cellName('Consort, fuse of 3', 'team', concurrency))!;
    const line = (
      name: string,
      samples: readonly Sample[],
      cpu: (sample: Sample) => number,
      isFloor: boolean,
    ) => {
      const added = (key: 'p50Ms' | 'p99Ms') =>
        shown(
          over(samples, (sample, round) => sample[key] - (isFloor ? 0 : floor[round]![key])),
          2,
        );
      const latency = `${added('p50Ms')} / ${added('p99Ms')}`;
      const rate = shown(over(samples, ({ requests, seconds }) => requests / seconds));
      return `| ${name} | ${concurrency} | ${rate} | ${isFloor ? `(${latency} itself)` : latency} | ${shown(over(samples, cpu))} |`;
    };
    const ofClient = ({ clientCpuMicros = Number.NaN, requests }: Sample) => clientCpuMicros / requests;
    return [
      line('bare client', floor, ofClient, true),
      line('Consort, fuse of 3', fuse, ({ cpuMicros }) => cpuMicros, false),
    ];
  });
  return table(['target', 'c', 'answers/s', 'added p50 / p99 ms', 'CPU µs'], lines);
}

function quiet(results: Results): string {
  const foreign = [...results.values()].flat().map(({ foreignCores }) => foreignCores);
  return `${median(foreign).toFixed(1)} (at most ${Math.max(...foreign).toFixed(1)})`;
}

export function page(results: Results, facts: Facts): string {
  return `# Benchmarks

Written by \`npm run bench:overhead\`; not edited by hand. bench/README.md says what is measured and what not to
conclude.

| fact | value |
|---|---|
| processor | ${facts.cpu}, ${facts.cores} cores, shared by load, proxy and upstream |
| Node | ${facts.node} |
| date | ${facts.date} |
| rounds | ${facts.rounds} of ${facts.seconds} s a cell, interleaved; medians over rounds, differences and ratios within a round |
| load | ${facts.loadedBy}; streams and fan-outs by an undici client |
| cores taken by other programs | ${quiet(results)} |
| upstream | a mock: ${facts.delayMs} ms before it answers |
${facts.hasNginx ? '' : '\nnginx was not on the PATH and was left out.\n'}
## One request, whole

600 bytes in, 1 KB out. *Added* is over the direct request of the same round. *CPU* is what the proxy's process used a
request, all threads, until nothing was left to do; *loop* is its event loop alone. Consort has keys, validation,
metrics, spool, SQLite ledger and scorer on; the bare proxy (Fastify and undici's dispatch) has nothing.

${wholeTable(results)}

## One request, streamed

${CHUNKS} chunks, one each ${facts.chunkDelayMs} ms, so that each is a read and a write of its own, as with a real model.

${streamTable(results)}

## Fuse of 3

Three drafts side by side, then one call that reads them. The floor is a client that makes the same four calls itself;
its CPU is its own.

${fuseTable(results)}
`;
}
