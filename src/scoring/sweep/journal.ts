/** What a sweep has done so far, a line a prompt: an interrupted sweep goes on where it stopped. */
import { appendFileSync, mkdirSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import Type, { type Static } from 'typebox';
import { Compile } from 'typebox/compile';

export const PromptResult = Type.Object({
  task: Type.String(),
  kind: Type.String(),
  cluster: Type.String(),
  /** Reward by mask; null where there is none. */
  rewards: Type.Record(Type.String(), Type.Union([Type.Number(), Type.Null()])),
  calls: Type.Integer(),
  reused: Type.Integer(),
  costMicros: Type.Integer(),
});
export type PromptResult = Static<typeof PromptResult>;

const result = Compile(PromptResult);

export class Journal {
  readonly #file: string;
  readonly done: ReadonlyMap<string, PromptResult>;

  /** Opens or continues the journal; a line cut off by a crash is run again. */
  constructor(file: string) {
    this.#file = file;
    mkdirSync(dirname(file), { recursive: true });
    this.done = readDone(file);
  }

  append(entry: PromptResult): void {
    appendFileSync(this.#file, `${JSON.stringify(entry)}\n`);
  }
}

function readDone(file: string): Map<string, PromptResult> {
  const done = new Map<string, PromptResult>();
  for (const line of readText(file).split('\n')) {
    const value = parse(line);
    if (result.Check(value)) done.set(value.task, value);
  }
  return done;
}

function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return '';
    throw error;
  }
}

function parse(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}
