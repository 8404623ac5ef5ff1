/** consort fit: fits the options of a system to a data set, measures them on the rest of it, and writes them down. */
import { writeFileSync } from 'node:fs';
import { ConsortError } from '../../contract/errors.ts';
import type { Measured } from '../../scoring/estimators/measured.ts';
import { SYSTEM_PREFIX, type System } from '../../gateway/catalog.ts';
import type { Options } from '../../gateway/protocols/protocol.ts';
import { integerFlag, numberFlag, requiredFlag, textFlag, type Command } from '../command.ts';
import { openForEvaluation } from '../evaluation.ts';
import { loadSettings, systemNamed } from '../settings.ts';
import { interruptible, Progress } from '../terminal.ts';
import { rowsOf } from '../task-rows.ts';
import { fitOptions, type FittedOptions } from './options.ts';

const EVALUATIONS = 100;

/** What the fit has changed. */
function changed({ options: before }: System, after: Options): Options {
  const isNew = ([name, value]: readonly [string, unknown]) =>
    JSON.stringify(value) !== JSON.stringify(before[name]);
  return Object.fromEntries(Object.entries(after).filter(isNew));
}

function line(label: string, { value, interval, n, method }: Measured): string {
  const [low, high] = interval.map((end) => end.toFixed(3));
  return `  ${label.padEnd(28)} ${value.toFixed(3)}  [${low}, ${high}]  n ${n}, ${method}\n`;
}

function textOf({ id, protocol }: System, found: FittedOptions): string {
  const { fitted, tried, measured, against, excluded, spent } = found;
  const how = tried > 0 ? `the best of ${tried} tried` : 'computed from what members said alone';
  const lines = [`${id} (${protocol.name}): ${how}, on ${fitted.prompts} prompts; on the others:\n`];
  if (measured) {
    lines.push(line('fitted', measured.first), line('as configured', measured.second));
    lines.push(line('fitted − as configured', measured.difference));
  } else lines.push('  nothing better than the configuration was found\n');
  if (against) {
    lines.push(line(`${against.single} alone`, against.measured.second));
    lines.push(line(`fitted − ${against.single} alone`, against.measured.difference));
  }
  if (excluded > 0) lines.push(`  ${excluded} prompts without a reward are left out\n`);
  lines.push(`  ${spent.calls} calls, ${(spent.costMicros / 1e6).toFixed(4)} USD\n`);
  return lines.join('');
}

export const fit: Command = {
  name: 'fit',
  summary: 'fit the options of a system to a data set, and measure them on the rest of it',
  usage:
    '--system ID --data sim|sim:KIND|FILE.jsonl [--out FILE.json] [--limit N] [--seed N] [--temperature T] ' +
    '[--evaluations N] [--concurrency N]',
  options: {
    system: { type: 'string' },
    data: { type: 'string' },
    out: { type: 'string' },
    limit: { type: 'string' },
    seed: { type: 'string' },
    temperature: { type: 'string' },
    evaluations: { type: 'string' },
    concurrency: { type: 'string' },
  },
  async run(invocation) {
    const { flags, environment } = invocation;
    const { config } = await loadSettings(invocation);
    const running = openForEvaluation(config, environment['CONSORT_SECRET']);
    try {
      const system = systemNamed(running.catalog.systems, requiredFlag(flags, 'system'), SYSTEM_PREFIX);
      const seed = integerFlag(flags, 'seed', 0, 1_000_000) ?? 0;
      const data = requiredFlag(flags, 'data');
      const rows = rowsOf(data, flags, seed);
      const evaluations = integerFlag(flags, 'evaluations', 1, 100_000) ?? EVALUATIONS;
      const temperature = numberFlag(flags, 'temperature', 0, 2);
      const progress = new Progress(`${system.id} on ${data}`, system.protocol.search ? evaluations : 1);
      const found = await fitOptions(running, {
        system,
        rows,
        seed,
        evaluations,
        ...(temperature !== undefined && { temperature }),
        concurrency: integerFlag(flags, 'concurrency', 1, 256) ?? 8,
        signal: interruptible(),
        onTried: (tried) => progress.show(tried),
      });
      progress.close();
      const options = changed(system, found.options);
      const file = {
        protocol: system.protocol.name,
        system: system.id,
        pool: system.pool.revision,
        data,
        seed,
      };
      const { measured, against, fitted, excluded } = found;
      const written = { ...file, n: { ...fitted }, measured, against, excluded, options };
      const text = `${JSON.stringify(written, null, 2)}\n`;
      const out = textFlag(flags, 'out');
      if (out !== undefined) write(out, text);
      const report = textOf(system, found);
      const hint = out === undefined ? '' : `  written to ${out}: name it in systems[].optionsFile\n`;
      process.stdout.write(flags['json'] ? text : `${report}${hint}`);
      return 0;
    } finally {
      await running.close();
    }
  },
};

function write(file: string, text: string): void {
  try {
    writeFileSync(file, text);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new ConsortError('usage', [`--out ${file} cannot be written: ${reason}`], { cause: error });
  }
}
