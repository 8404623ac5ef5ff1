/** consort train: one training run of a system's policy, inside its team. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Value from 'typebox/value';
import { ConsortError } from '../../contract/errors.ts';
import type { Config } from '../../contract/config.ts';
import type { ObjectiveChoice } from '../../contract/train-config.ts';
import type { Learner } from '../../policy/learner.ts';
import type { TaskRow } from '../../contract/task.ts';
import { openStore } from '../../store/index.ts';
import { integerFlag, numberFlag, requiredFlag, textFlag, type Command, type Flags } from '../command.ts';
import { loadSettings } from '../settings.ts';
import { Progress } from '../terminal.ts';
import { Measured } from '../training/holdout.ts';
import { Training } from '../training/index.ts';
import { trainedSystem, type TrainedSystem } from '../training/trained-system.ts';
import { trainHtml } from './html.ts';
import { trainReport, type TrainReport } from './report.ts';
import { trainText } from './text.ts';

/** How long a trainer that restarts is waited for, in milliseconds. */
const PATIENCE_MS = 300_000;

const OBJECTIVES: readonly ObjectiveChoice[] = ['team', 'solo', 'self', 'mix'];

function readObjective(flags: Flags): ObjectiveChoice | undefined {
  const name = textFlag(flags, 'objective');
  const known = OBJECTIVES.find((one) => one === name);
  if (known || name === undefined) return known;
  throw new ConsortError('usage', [`--objective takes one of ${OBJECTIVES.join(', ')}, got ${name}`]);
}

/** The system as this run trains it: flags go before the configuration. */
function readSystem(config: Config, flags: Flags): TrainedSystem {
  const system = trainedSystem(config, requiredFlag(flags, 'system'));
  const objective = readObjective(flags);
  const group = integerFlag(flags, 'group', 2, 256);
  const batch = integerFlag(flags, 'batch', 1, 4096);
  const seed = integerFlag(flags, 'seed', 0, 1_000_000);
  const train = {
    ...system.train,
    ...(objective && { objective }),
    ...(group !== undefined && { group }),
    ...(batch !== undefined && { batch }),
    ...(seed !== undefined && { seed }),
  };
  return { ...system, train };
}

function readRun(flags: Flags, { id, train }: TrainedSystem): string {
  const run = textFlag(flags, 'run') ?? `${id}-${train.objective}-${train.seed}`.replaceAll('.', '_');
  if (/^[A-Za-z0-9_-]{1,64}$/.test(run)) return run;
  throw new ConsortError('usage', [`--run takes letters, digits, - and _, at most 64, got ${run}`]);
}

interface Session {
  readonly training: Training;
  readonly run: string;
  readonly rounds: number;
  /** Held-out tasks that are measured. */
  readonly limit: number;
  readonly sampling: { readonly temperature?: number };
  readonly signal: AbortSignal;
}

/** Measured once a run: a run that is taken up again compares with where it began. */
async function measureBefore(session: Session): Promise<Measured> {
  const file = join(session.training.directory, 'before.json');
  const kept = readMeasured(file);
  if (kept) return kept;
  const before = await measure(session, 0, 'before');
  if (session.signal.aborted) return before;
  mkdirSync(session.training.directory, { recursive: true });
  writeFileSync(file, JSON.stringify(before));
  return before;
}

/** Nothing for a file that a crash cut off: what is before the first step can be measured again at any time. */
function readMeasured(file: string): Measured | undefined {
  if (!existsSync(file)) return undefined;
  try {
    const value: unknown = JSON.parse(readFileSync(file, 'utf8'));
    return Value.Check(Measured, value) ? value : undefined;
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

async function measure(session: Session, step: number, when: string): Promise<Measured> {
  const { training, limit, sampling } = session;
  const progress = new Progress(`held-out tasks ${when}`, limit);
  const served = await training.serve(step);
  const measured = await training.holdout.measure(served, limit, sampling, (done) => progress.show(done));
  progress.close();
  return measured;
}

async function runToEnd(session: Session, learner: Learner<TaskRow>): Promise<TrainReport | undefined> {
  const { training, run, rounds, signal } = session;
  const { id, train } = training.system;
  const before = await measureBefore(session);
  const progress = new Progress(`${run}: ${train.objective}`, rounds);
  progress.show(learner.points.length);
  for await (const point of learner.advance(rounds)) {
    const means = point.rewards.map(({ objective, mean }) => `${objective} ${mean?.toFixed(3) ?? '–'}`);
    progress.show(point.round, means.join(', '));
  }
  progress.close();
  if (signal.aborted) return undefined;
  const after = await measure(session, learner.step, 'after');
  if (signal.aborted) return undefined;
  writeFileSync(join(training.directory, 'after.json'), JSON.stringify(after));
  const { policy, objective, group, batch, seed, learningRate, rank } = train;
  const provenance = {
    run,
    system: id,
    policy,
    objective,
    group,
    batch,
    seed,
    learningRate,
    rank,
    simulated: training.simulated,
  };
  return trainReport(provenance, learner.points, before, after);
}

/** What fails after a stop fails because of it: requests are cut off, and taken up by the next run. */
async function unlessStopped<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    if (signal.aborted) return undefined;
    throw error;
  }
}

function writeReport(directory: string, report: TrainReport): void {
  writeFileSync(join(directory, 'report.json'), `${JSON.stringify(report, null, 2)}\n`);
  writeFileSync(join(directory, 'report.txt'), trainText(report));
  writeFileSync(join(directory, 'report.html'), trainHtml(report));
}

/** Hands the trained weights to the gate; says what became of them. */
async function release(training: Training, step: number): Promise<string> {
  await training.export(step);
  const decided = await training.controller.advance();
  const last = decided?.release.history.at(-1);
  return `version ${decided?.release.version} is ${last?.to}: ${last?.reason}\n`;
}

export const train: Command = {
  name: 'train',
  summary: 'train a system’s policy inside its team, and say what it gained',
  usage:
    '--system ID [--steps N] [--group G] [--batch P] [--objective team|solo|self|mix] [--seed N] [--run NAME] ' +
    '[--limit N] [--temperature T] [--release] [--store URL]',
  options: {
    system: { type: 'string' },
    steps: { type: 'string' },
    group: { type: 'string' },
    batch: { type: 'string' },
    objective: { type: 'string' },
    seed: { type: 'string' },
    run: { type: 'string' },
    limit: { type: 'string' },
    temperature: { type: 'string' },
    release: { type: 'boolean', default: false },
    store: { type: 'string' },
  },
  async run(invocation) {
    const { flags, environment } = invocation;
    const { config } = await loadSettings(invocation);
    const system = readSystem(config, flags);
    const run = readRun(flags, system);
    const control = new AbortController();
    for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => control.abort());
    const store = await openStore(config.store.url);
    const { signal } = control;
    const secret = environment['CONSORT_SECRET'];
    const hooks = { store, secret, signal, run, patienceMs: PATIENCE_MS };
    await using closing = new AsyncDisposableStack();
    closing.defer(() => store.close());
    const training = new Training(config, system, hooks);
    closing.defer(() => training.close());
    const temperature = numberFlag(flags, 'temperature', 0, 2);
    const session: Session = {
      training,
      run,
      rounds: integerFlag(flags, 'steps', 1, 1_000_000) ?? system.train.steps,
      limit: Math.min(training.holdout.tasks, integerFlag(flags, 'limit', 1, 1_000_000) ?? Infinity),
      sampling: temperature === undefined ? {} : { temperature },
      signal,
    };
    const learner = await unlessStopped(signal, () => training.open());
    const report = learner && (await unlessStopped(signal, () => runToEnd(session, learner)));
    if (!report) {
      const done = learner ? `after ${learner.points.length} of ${session.rounds} steps` : 'before it began';
      process.stderr.write(`Stopped ${done}; the same command goes on.\n`);
      return 1;
    }
    writeReport(training.directory, report);
    const { curve: _curve, ...summary } = report;
    const shown = `${trainText(report)}report: ${join(training.directory, 'report.html')}\n`;
    process.stdout.write(flags['json'] ? `${JSON.stringify(summary)}\n` : shown);
    if (flags['release'] === true) process.stderr.write(await release(training, learner.step));
    return 0;
  },
};
