/** consort eval: runs a system's coalitions over a data set and says what each member is worth. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ConsortError } from '../contract/errors.ts';
import { SYSTEM_PREFIX, type System } from '../gateway/catalog.ts';
import { designs } from '../scoring/designs/index.ts';
import { integerFlag, numberFlag, requiredFlag, textFlag, type Command, type Flags } from './command.ts';
import { evalText } from './eval-text.ts';
import { openForEvaluation, runEvaluation, type Evaluation } from './evaluation.ts';
import { loadSettings, systemNamed } from './settings.ts';
import { rowsOf } from './task-rows.ts';
import { interruptible, Progress } from './terminal.ts';

function readEvaluation(flags: Flags, systems: ReadonlyMap<string, System>): Evaluation {
  const system = systemNamed(systems, requiredFlag(flags, 'system'), SYSTEM_PREFIX);
  const name = textFlag(flags, 'design') ?? 'full';
  const design = designs.find((known) => known.name === name);
  if (!design || (name !== 'full' && name !== 'loo')) {
    const known = designs.map((one) => one.name).join(' or ');
    throw new ConsortError('usage', [`--design takes ${known}, got ${name}`]);
  }
  const members = system.pool.members.length;
  if (members > design.mostMembers) {
    const most = `--design ${name} takes at most ${design.mostMembers} members`;
    throw new ConsortError('usage', [`${most}, and pool ${system.pool.id} has ${members}; use --design loo`]);
  }
  const seed = integerFlag(flags, 'seed', 0, 1_000_000) ?? 0;
  const tasks = requiredFlag(flags, 'tasks');
  const temperature = numberFlag(flags, 'temperature', 0, 2);
  return {
    system,
    tasks,
    rows: rowsOf(tasks, flags, seed),
    design: name,
    masks: design.masks(members),
    seed,
    ...(temperature !== undefined && { temperature }),
    concurrency: integerFlag(flags, 'concurrency', 1, 256) ?? 8,
  };
}

function writeReport(directory: string, json: unknown, text: string): void {
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, 'report.json'), `${JSON.stringify(json, null, 2)}\n`);
  writeFileSync(join(directory, 'report.txt'), text);
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
    const running = openForEvaluation(config, environment['CONSORT_SECRET']);
    try {
      const evaluation = readEvaluation(flags, running.catalog.systems);
      const { system, tasks, design, seed, rows } = evaluation;
      const progress = new Progress(`${system.id} on ${tasks}`, rows.length);
      const { results, report } = await runEvaluation(running, evaluation, {
        directory: join('.consort', 'sweeps'),
        signal: interruptible(),
        onProgress: (done) => progress.show(done),
      });
      progress.close();
      if (!report) {
        const done = `${results.length} of ${rows.length} prompts`;
        process.stderr.write(`Stopped after ${done}; the same command goes on.\n`);
        return 1;
      }
      const grand = report.estimates.find(({ metric }) => metric === 'value');
      const json = { system: system.id, tasks, design, seed, grand, ...report };
      const text = evalText(system, tasks, report);
      process.stdout.write(flags['json'] ? `${JSON.stringify(json)}\n` : text);
      const directory = textFlag(flags, 'report');
      if (directory !== undefined) writeReport(directory, json, text);
      return 0;
    } finally {
      await running.close();
    }
  },
};
