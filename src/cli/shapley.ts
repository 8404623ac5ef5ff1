/** consort shapley: every index of a game given as a value table. */
import { readFileSync } from 'node:fs';
import { ConsortError } from '../contract/errors.ts';
import { allIndices } from '../scoring/estimators/indices.ts';
import { parseGame } from '../scoring/estimators/game.ts';
import { requiredFlag, type Command } from './command.ts';

function readJson(file: string): unknown {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new ConsortError('file_unreadable', [file, reason], { cause: error });
  }
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new ConsortError('game_invalid', [`${file} is not valid JSON`], { cause: error });
  }
}

export const shapley: Command = {
  name: 'shapley',
  summary: 'every index (Shapley, leave-one-out, Banzhaf, …) of a game given as a table',
  usage: '--game FILE.json',
  options: { game: { type: 'string' } },
  run({ flags, positionals }) {
    const game = parseGame(readJson(positionals[0] ?? requiredFlag(flags, 'game')));
    const indices = { players: game.players, ...allIndices(game) };
    process.stdout.write(`${JSON.stringify(indices, null, flags['json'] ? 0 : 2)}\n`);
    return Promise.resolve(0);
  },
};
