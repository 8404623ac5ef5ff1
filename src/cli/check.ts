/** consort check: every problem of a configuration, with where, what and the remedy. */
import { readConfig } from '../config/load.ts';
import { requiredFlag, type Command } from './command.ts';
import { known } from './known.ts';

export const check: Command = {
  name: 'check',
  summary: 'validate a config file and explain every error',
  usage: '--config FILE',
  options: {},
  run({ flags, environment, positionals }) {
    const file = positionals[0] ?? requiredFlag(flags, 'config');
    const { config, problems } = readConfig(file, environment, known);
    if (flags['json']) process.stdout.write(`${JSON.stringify({ ok: problems.length === 0, problems })}\n`);
    else {
      for (const { path, message, remedy } of problems)
        process.stdout.write(`${path}: ${message}\n  → ${remedy}\n`);
      const summary = config
        ? `${file} is valid: ${config.models.length} models, ${config.pools.length} pools, ${config.systems.length} systems.`
        : `${problems.length} problem${problems.length === 1 ? '' : 's'} in ${file}.`;
      process.stdout.write(`${summary}\n`);
    }
    return Promise.resolve(problems.length === 0 ? 0 : 1);
  },
};
