/** consort check: every problem of a configuration, with where, what and the remedy; what its endpoints can do. */
import { readConfig } from '../config/load.ts';
import type { Config } from '../contract/config.ts';
import { requiredFlag, type Command } from './command.ts';
import { known } from './known.ts';
import { probeAll, probeJson, probeText, type Probed } from './probe.ts';

function summaryOf(file: string, config: Config | undefined, problems: number): string {
  if (!config) return `${problems} problem${problems === 1 ? '' : 's'} in ${file}.`;
  const { models, pools, systems } = config;
  return `${file} is valid: ${models.length} models, ${pools.length} pools, ${systems.length} systems.`;
}

export const check: Command = {
  name: 'check',
  summary: 'validate a config file and explain every error',
  usage: '--config FILE [--probe: ask each endpoint what it can do, by tiny requests]',
  options: { probe: { type: 'boolean', default: false } },
  async run({ flags, environment, positionals }) {
    const file = positionals[0] ?? requiredFlag(flags, 'config');
    const { config, problems } = readConfig(file, environment, known);
    const probed: Probed[] = flags['probe'] && config ? await probeAll(config) : [];
    const isOk = problems.length === 0 && probed.every(({ report }) => !report?.error);
    if (flags['json']) {
      const probes = flags['probe'] && { probes: probed.map(probeJson) };
      process.stdout.write(`${JSON.stringify({ ok: isOk, problems, ...probes })}\n`);
    } else {
      for (const { path, message, remedy } of problems)
        process.stdout.write(`${path}: ${message}\n  → ${remedy}\n`);
      process.stdout.write(`${summaryOf(file, config, problems.length)}\n`);
      for (const one of probed) process.stdout.write(`\n${probeText(one)}`);
    }
    return isOk ? 0 : 1;
  },
};
