/** consort grade: one `{prediction, gold, params?}` a line in, one `{reward, status, answer}` a line out. */
import { createInterface } from 'node:readline';
import Type from 'typebox';
import { Compile } from 'typebox/compile';
import { ConsortError } from '../contract/errors.ts';
import { verifiers } from '../scoring/rewards/index.ts';
import { requiredFlag, type Command } from './command.ts';

const Row = Compile(
  Type.Object(
    {
      prediction: Type.String(),
      gold: Type.Unknown(),
      params: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
    },
    { additionalProperties: true },
  ),
);

function readRow(line: string, number: number) {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch (error) {
    throw new ConsortError('tasks_invalid', ['standard input', number, 'it is not valid JSON'], {
      cause: error,
    });
  }
  if (Row.Check(value)) return value;
  throw new ConsortError('tasks_invalid', [
    'standard input',
    number,
    'it needs prediction (a text) and gold',
  ]);
}

export const grade: Command = {
  name: 'grade',
  summary: 'grade predictions against gold answers, a JSON line each',
  usage: '--verifier ID < rows.jsonl',
  options: { verifier: { type: 'string' } },
  async run({ flags }) {
    const id = requiredFlag(flags, 'verifier');
    const verifier = verifiers.find((candidate) => candidate.id === id);
    if (!verifier)
      throw new ConsortError('verifier_unknown', [id, verifiers.map((one) => one.id).join(', ')]);
    let number = 0;
    for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
      number++;
      if (line.trim() === '') continue;
      const { prediction, gold, params } = readRow(line, number);
      const { reward, status, answer } = verifier.grade({
        completion: prediction,
        gold,
        ...(params && { params }),
      });
      process.stdout.write(`${JSON.stringify({ reward, status, answer: answer ?? null })}\n`);
    }
    return 0;
  },
};
