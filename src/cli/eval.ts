/** consort eval: runs a system's coalitions over a data set and says what each member is worth. */
import { createHash } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Config } from '../contract/config.ts';
import { ConsortError } from '../contract/errors.ts';
import type { TaskRow } from '../contract/task.ts';
import { SYSTEM_PREFIX, type System } from '../gateway/catalog.ts';
import { bitsOf } from '../gateway/engine/outcome.ts';
import { planOf } from '../gateway/resolve.ts';
import { simRows, simTaskSet } from '../gateway/upstreams/sim/tasks.ts';
import { designs } from '../scoring/designs/index.ts';
import { sourceOf } from '../scoring/judge.ts';
import { verifiers } from '../scoring/rewards/index.ts';
import { Journal, type PromptResult } from '../scoring/sweep/journal.ts';
import { reportOf, type SweepReport } from '../scoring/sweep/report.ts';
import { sweep } from '../scoring/sweep/sweep.ts';
import { readTaskFile } from '../scoring/sweep/task-file.ts';
import { integerFlag, requiredFlag, textFlag, type Command, type Flags } from './command.ts';
import { evalText } from './eval-text.ts';
import { clock, newId } from './natives.ts';
import { loadSettings, systemNamed } from './settings.ts';
import { openSystem } from './system.ts';
import { Progress } from './terminal.ts';

const DEFAULT_LIMIT = 200;

interface Request {
  readonly system: System;
  readonly tasks: string;
  readonly rows: readonly TaskRow[];
  readonly design: 'full' | 'loo';
  readonly masks: readonly number[];
  readonly seed: number;
  readonly temperature: number | undefined;
  readonly concurrency: number;
}

/** The simulated pool needs no time and no accidents when it is evaluated: its known truth has neither. */
function forEvaluation(config: Config): Config {
  const models = config.models.map((model) => ({ ...model, delays: false, failures: false }));
  return { ...config, models };
}

function rowsOf(tasks: string, flags: Flags, seed: number): readonly TaskRow[] {
  const limit = integerFlag(flags, 'limit', 1, 1_000_000);
  const simulated = simTaskSet(tasks);
  if (simulated) return simRows(simulated.kind, limit ?? DEFAULT_LIMIT, seed);
  const rows = readTaskFile(tasks);
  for (const { id, verifier } of rows) {
    if (verifiers.some((known) => known.id === verifier)) continue;
    const known = verifiers.map((one) => one.id).join(', ');
    throw new ConsortError('tasks_invalid', [
      tasks,
      id,
      `there is no verifier ${verifier}; use one of ${known}`,
    ]);
  }
  return limit === undefined ? rows : rows.slice(0, limit);
}

function readRequest(flags: Flags, systems: ReadonlyMap<string, System>): Request {
  const system = systemNamed(systems, requiredFlag(flags, 'system'), SYSTEM_PREFIX);
  const name = textFlag(flags, 'design') ?? 'full';
  const design = designs.find((known) => known.name === name);
  if (!design || (name !== 'full' && name !== 'loo')) {
    throw new ConsortError('usage', [
      `--design takes ${designs.map((known) => known.name).join(' or ')}, got ${name}`,
    ]);
  }
  const seed = integerFlag(flags, 'seed', 0, 1_000_000) ?? 0;
  const tasks = requiredFlag(flags, 'tasks');
  const temperature = textFlag(flags, 'temperature');
  return {
    system,
    tasks,
    rows: rowsOf(tasks, flags, seed),
    design: name,
    masks: design.masks(system.pool.members.length),
    seed,
    temperature: temperature === undefined ? undefined : Number(temperature),
    concurrency: integerFlag(flags, 'concurrency', 1, 256) ?? 8,
  };
}

/** Everything that could change a reward: the journal of another sweep is another file. */
function fingerprint(request: Request): string {
  const { system, design, seed, temperature, rows } = request;
  const versions = verifiers.map((verifier) => sourceOf(verifier));
  const material = [
    system.id,
    system.pool.revision,
    system.protocolRevision,
    design,
    seed,
    temperature,
    versions,
  ];
  return createHash('sha256')
    .update(JSON.stringify(material))
    .update(JSON.stringify(rows.map(({ id, gold }) => [id, gold])))
    .digest('hex')
    .slice(0, 16);
}

async function runSweep(config: Config, request: Request, running: ReturnType<typeof openSystem>) {
  const { system, rows, seed, design } = request;
  const journal = new Journal(join('.consort', 'sweeps', `${fingerprint(request)}.jsonl`));
  const left = rows.filter(({ id }) => !journal.done.has(id));
  const results: PromptResult[] = rows.flatMap(({ id }) => journal.done.get(id) ?? []);
  const progress = new Progress(`${system.id} on ${request.tasks}`, rows.length, results.length);
  const control = new AbortController();
  const stop = () => control.abort();
  process.once('SIGINT', stop);
  const parts = { catalog: running.catalog, maxStreamMs: config.server.maxStreamSeconds * 1000 };
  const members = system.pool.members;
  await sweep(left, {
    run: running.run,
    verifiers,
    clock,
    masks: request.masks,
    sampling: request.temperature === undefined ? {} : { temperature: request.temperature },
    concurrency: request.concurrency,
    signal: control.signal,
    planFor(row, mask) {
      const coalition = bitsOf(mask).flatMap((bit) => members[bit]?.alias ?? []);
      const identity = {
        id: newId(),
        seed: String(seed),
        promptInstance: `${seed}/${row.id}`,
        tenant: 'eval',
      };
      return planOf(
        parts,
        system,
        { coalition, design, ...(row.cluster !== undefined && { cluster: row.cluster }) },
        identity,
      );
    },
    onResult(result) {
      journal.append(result);
      results.push(result);
      progress.advance();
    },
  });
  progress.close();
  process.off('SIGINT', stop);
  return { results, interrupted: control.signal.aborted };
}

function writeReport(directory: string, json: unknown, text: string): void {
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, 'report.json'), `${JSON.stringify(json, null, 2)}\n`);
  writeFileSync(join(directory, 'report.txt'), text);
}

function reportFor(request: Request, results: readonly PromptResult[]): SweepReport {
  const { system, tasks, design, masks, rows } = request;
  const sources = new Set(rows.map(({ verifier }) => verifier));
  const used = verifiers.filter(({ id }) => sources.has(id)).map((verifier) => sourceOf(verifier));
  const players = system.pool.members.map(({ alias }) => alias);
  return reportOf(results, players, masks, {
    system: system.id,
    task: tasks,
    source: used.join('+'),
    design,
    poolRevision: system.pool.revision,
    protocolRevision: system.protocolRevision,
    simulated: system.simulated,
    at: clock.now(),
  });
}

export const evaluate: Command = {
  name: 'eval',
  summary: 'run a system’s coalitions over a data set: individual strength, leave-one-out, Shapley',
  usage:
    '--system ID --tasks sim|sim:KIND|FILE.jsonl [--design full|loo] [--limit N] [--seed N] [--temperature T] ' +
    '[--concurrency N] [--report DIR]',
  options: {
    system: { type: 'string' },
    tasks: { type: 'string' },
    design: { type: 'string' },
    limit: { type: 'string' },
    seed: { type: 'string' },
    temperature: { type: 'string' },
    concurrency: { type: 'string' },
    report: { type: 'string' },
  },
  async run(invocation) {
    const { flags, environment } = invocation;
    const { config } = await loadSettings(invocation);
    const quiet = { onOutcome: () => undefined, onRetry: () => undefined };
    // The chance of a sweep comes from its seed alone, so that it can be repeated elsewhere.
    const secret = environment['CONSORT_SECRET'] ?? 'sweep';
    const running = openSystem(forEvaluation(config), { secret, ...quiet });
    try {
      const request = readRequest(flags, running.catalog.systems);
      const { results, interrupted } = await runSweep(config, request, running);
      if (interrupted) {
        process.stderr.write(
          `Stopped after ${results.length} of ${request.rows.length} prompts; the same command goes on.\n`,
        );
        return 1;
      }
      const report = reportFor(request, results);
      const grand = report.estimates.find(({ metric }) => metric === 'value');
      const json = {
        system: request.system.id,
        tasks: request.tasks,
        design: request.design,
        seed: request.seed,
        grand,
        ...report,
      };
      const text = evalText(request.system, request.tasks, report);
      process.stdout.write(flags['json'] ? `${JSON.stringify(json)}\n` : text);
      const directory = textFlag(flags, 'report');
      if (directory !== undefined) writeReport(directory, json, text);
      return 0;
    } finally {
      await running.close();
    }
  },
};
