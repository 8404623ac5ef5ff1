/**
 * `npm run bench:first-loop`: trains tiny-policy inside the tiny team's fuse, alone, and both by turns, over three
 * seeds, against a real trainer, and writes docs/experiments/first-loop.md. Runs that are finished are not run again.
 * Needs a trainer (tools/trainer/install.sh) and the packages of examples/tiny-team. Takes an hour or more.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { format, resolveConfig } from 'prettier';
import type { TrainReport } from '../../src/cli/train/report.ts';
import type { Measured } from '../../src/cli/training/holdout.ts';
import { isInstalled, SkyRl } from '../../tools/trainer/server.ts';
import { byTask, type ByTask, type Quantity } from './compare.ts';
import { page, verdictsOf, type Arm } from './page.ts';
import { startTinyTeam } from './servers.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const { values } = parseArgs({
  options: {
    steps: { type: 'string', default: '100' },
    seeds: { type: 'string', default: '1,2,3' },
    objectives: { type: 'string', default: 'team,solo,mix' },
    directory: { type: 'string', default: '.consort/first-loop' },
  },
});
const seeds = values.seeds.split(',');
const objectives = values.objectives.split(',');
const directory = resolve(root, values.directory);
const environment = resolve(root, process.env['CONSORT_TRAINER'] ?? '.consort/trainer');
const model = join(root, 'examples/tiny-team/models/tiny-policy');

async function train(objective: string, seed: string, urls: Readonly<Record<string, string>>): Promise<void> {
  const args = ['train', '--config', 'examples/tiny-team/train.yaml', '--system', 'policy-fuse'];
  const flags = { objective, seed, steps: values.steps, run: `${objective}-${seed}` };
  const named = Object.entries(flags).flatMap(([name, value]) => [`--${name}`, value]);
  const store = `sqlite:${join(directory, 'consort.db')}`;
  const child = spawn(process.execPath, ['src/main.ts', ...args, ...named, '--store', store], {
    cwd: root,
    stdio: ['ignore', 'inherit', 'inherit'],
    env: { ...process.env, ...urls, TRAINER_MODEL: model, TRAINING_DIRECTORY: directory },
  });
  const [code] = (await once(child, 'exit')) as [number | null];
  if (code !== 0) throw new Error(`${objective}, seed ${seed}: exit code ${code}`);
}

function read(objective: string, seed: string, file: string): unknown {
  return JSON.parse(readFileSync(join(directory, `${objective}-${seed}`, file), 'utf8'));
}
const reportOf = (objective: string, seed: string) => read(objective, seed, 'report.json') as TrainReport;
const measuredOf = (objective: string, seed: string, file: string) => read(objective, seed, file) as Measured;

function armOf(objective: string): Arm {
  const quantities = (file: string): Record<Quantity, readonly ByTask[]> => {
    const measured = seeds.map((seed) => measuredOf(objective, seed, file));
    const of = (quantity: Quantity) => measured.map((one) => byTask(one, quantity));
    return { team: of('team'), alone: of('alone'), leaveOneOut: of('leaveOneOut') };
  };
  return {
    objective,
    reports: seeds.map((seed) => reportOf(objective, seed)),
    before: quantities('before.json'),
    after: quantities('after.json'),
  };
}

async function write(minutes: number): Promise<boolean> {
  const arms = objectives.map(armOf);
  const file = join(root, 'docs/experiments/first-loop.md');
  const text = page(arms, {
    date: new Date().toISOString().slice(0, 10),
    steps: Number(values.steps),
    minutes: Math.round(minutes),
  });
  writeFileSync(file, await format(text, { ...(await resolveConfig(file)), filepath: file }));
  process.stdout.write(readFileSync(file, 'utf8'));
  return verdictsOf(arms).every(({ holds }) => holds);
}

/** Minutes that training took, over all sessions: from the curves. */
function minutesTaken(): number {
  const spent = objectives.flatMap((objective) => seeds.flatMap((seed) => reportOf(objective, seed).curve));
  return spent.reduce((sum, { rolloutMs, trainMs }) => sum + rolloutMs + trainMs, 0) / 60_000;
}

/** Seed by seed, so that an experiment that is cut off has all arms of some seeds. */
function missingRuns(): (readonly [objective: string, seed: string])[] {
  const runs = seeds.flatMap((seed) => objectives.map((objective) => [objective, seed] as const));
  return runs.filter(
    ([objective, seed]) => !existsSync(join(directory, `${objective}-${seed}`, 'report.json')),
  );
}

async function trainAll(runs: readonly (readonly [string, string])[]): Promise<void> {
  if (!isInstalled(environment)) {
    throw new Error(`no trainer in ${environment}; install one with tools/trainer/install.sh`);
  }
  mkdirSync(join(directory, 'trainer'), { recursive: true });
  const tiny = await startTinyTeam(root);
  const trainer = new SkyRl({ environment, model, directory: join(directory, 'trainer'), microBatch: 16 });
  try {
    await trainer.start();
    const urls = { TINY_TEAM_URL: tiny.baseUrl, TRAINER_URL: trainer.url };
    for (const [objective, seed] of runs) await train(objective, seed, urls);
  } finally {
    await trainer.kill();
    await tiny.stop();
  }
}

const missing = missingRuns();
if (missing.length > 0) await trainAll(missing);
process.exitCode = (await write(minutesTaken())) ? 0 : 1;
