/** The list of commands, and the way from argv to an exit code: 0 done, 1 failed, 2 wrong usage. */
import type { Environment } from '../config/secrets.ts';
import { ConsortError } from '../contract/errors.ts';
import { check } from './check.ts';
import { readFlags, type Command } from './command.ts';

import { demo } from './demo.ts';
import { evaluate } from './eval.ts';
import { exportGroups } from './export.ts';
import { fit } from './fit/index.ts';
import { grade } from './grade.ts';
import { keys } from './keys.ts';
import { learn } from './learn.ts';
import { merge } from './merge/index.ts';
import { releases } from './releases.ts';
import { score } from './score.ts';
import { serve } from './serve.ts';
import { shapley } from './shapley.ts';
import { train } from './train/index.ts';
import { version } from './version.ts';

export const commands: readonly Command[] = [
  serve,
  score,
  learn,
  evaluate,
  fit,
  exportGroups,
  train,
  merge,
  releases,
  demo,
  grade,
  shapley,
  check,
  keys,
];

function helpText(): string {
  const lines = commands.map(({ name, summary }) => `  ${name.padEnd(9)} ${summary}`);
  return [
    `consort ${version}: a gateway for teams of language models`,
    '',
    ...lines,
    '',
    'Every command takes --config FILE and --json, and says more with --help.',
    '',
  ].join('\n');
}

function usageOf({ name, summary, usage }: Command): string {
  return `${summary}\n\nusage: consort ${name} [--config FILE] [--json] ${usage}\n`;
}

export async function main(args: readonly string[], environment: Environment): Promise<number> {
  const [name = 'help', ...rest] = args;
  if (name === '--version' || name === 'version') {
    process.stdout.write(`${version}\n`);
    return 0;
  }
  if (name === 'help' || name === '--help' || name === '-h') {
    const about = commands.find((command) => command.name === rest[0]);
    process.stdout.write(about ? usageOf(about) : helpText());
    return 0;
  }
  const command = commands.find((candidate) => candidate.name === name);
  if (!command) {
    process.stderr.write(`There is no command ${name}.\n\n${helpText()}`);
    return 2;
  }
  return runCommand(command, rest, environment);
}

async function runCommand(
  command: Command,
  args: readonly string[],
  environment: Environment,
): Promise<number> {
  try {
    const invocation = readFlags(command, args, environment);
    if (invocation.flags['help'] === true) {
      process.stdout.write(usageOf(command));
      return 0;
    }
    return await command.run(invocation);
  } catch (thrown) {
    const error = ConsortError.from(thrown);
    const json = args.includes('--json');
    if (json) process.stdout.write(`${JSON.stringify(error.toBody())}\n`);
    else process.stderr.write(`consort ${command.name}: ${error.message}. ${error.remedy} [${error.code}]\n`);
    if (error.code === 'internal') process.stderr.write(`${String(causeOf(error))}\n`);
    return error.code === 'usage' ? 2 : 1;
  }
}

function causeOf({ cause }: ConsortError): unknown {
  return cause instanceof Error ? (cause.stack ?? cause.message) : cause;
}
