/** The one interface of a command, and how its flags are read. */
import { parseArgs, type ParseArgsOptionsConfig } from 'node:util';
import type { Environment } from '../config/secrets.ts';
import { ConsortError } from '../contract/errors.ts';

export type Flags = Readonly<Record<string, string | boolean | undefined>>;

export interface Invocation {
  readonly flags: Flags;
  readonly positionals: readonly string[];
  readonly environment: Environment;
}

export interface Command {
  readonly name: string;
  readonly summary: string;
  /** The flags after the common --config and --json, as the help shows them. */
  readonly usage: string;
  readonly options: ParseArgsOptionsConfig;
  /** Resolves to the exit code. Throws a catalogue error for exit 1, `usage` for exit 2. */
  readonly run: (invocation: Invocation) => Promise<number>;
}

const COMMON: ParseArgsOptionsConfig = {
  config: { type: 'string' },
  json: { type: 'boolean', default: false },
  help: { type: 'boolean', short: 'h', default: false },
};

/** @throws `usage` for a flag that the command does not know or that lacks its value */
export function readFlags(command: Command, args: readonly string[], environment: Environment): Invocation {
  try {
    const { values, positionals } = parseArgs({
      args: [...args],
      options: { ...COMMON, ...command.options },
      allowPositionals: true,
      strict: true,
    });
    const flags: Record<string, string | boolean | undefined> = {};
    for (const [name, value] of Object.entries(values)) if (!Array.isArray(value)) flags[name] = value;
    return { flags, positionals, environment };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new ConsortError('usage', [reason], { cause: error });
  }
}

export function textFlag(flags: Flags, name: string): string | undefined {
  const value = flags[name];
  return typeof value === 'string' ? value : undefined;
}

/** @throws `usage` when it is missing */
export function requiredFlag(flags: Flags, name: string): string {
  const value = textFlag(flags, name);
  if (value === undefined || value === '') throw new ConsortError('usage', [`--${name} is required`]);
  return value;
}

/** @throws `usage` when it is no number in the range */
export function numberFlag(flags: Flags, name: string, least: number, most: number): number | undefined {
  const text = textFlag(flags, name);
  if (text === undefined) return undefined;
  const value = Number(text);
  if (text.trim() === '' || !(value >= least && value <= most)) {
    throw new ConsortError('usage', [`--${name} takes a number from ${least} to ${most}, got ${text}`]);
  }
  return value;
}

/** @throws `usage` when it is no integer in the range */
export function integerFlag(flags: Flags, name: string, least: number, most: number): number | undefined {
  const value = numberFlag(flags, name, least, most);
  if (value === undefined || Number.isInteger(value)) return value;
  throw new ConsortError('usage', [`--${name} takes an integer from ${least} to ${most}, got ${value}`]);
}
