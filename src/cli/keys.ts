/** consort keys new: an API key, shown once, and the entry for auth.keys. */
import { createHash, randomBytes } from 'node:crypto';
import { ConsortError } from '../contract/errors.ts';
import { textFlag, type Command } from './command.ts';

export const keys: Command = {
  name: 'keys',
  summary: 'make an API key and its hash: consort keys new',
  usage: 'new [--name NAME]',
  options: { name: { type: 'string' } },
  run({ flags, positionals }) {
    if (positionals[0] !== 'new') throw new ConsortError('usage', ['say `consort keys new`']);
    const name = textFlag(flags, 'name') ?? 'app';
    const key = `ck-${randomBytes(32).toString('base64url')}`;
    const sha256 = createHash('sha256').update(key).digest('hex');
    if (flags['json']) process.stdout.write(`${JSON.stringify({ name, key, sha256 })}\n`);
    else {
      const entry = `auth:\n  required: true\n  keys:\n    - { name: ${name}, sha256: "${sha256}" }`;
      process.stdout.write(`The key, shown only now:\n\n  ${key}\n\nFor the config file:\n\n${entry}\n`);
    }
    return Promise.resolve(0);
  },
};
