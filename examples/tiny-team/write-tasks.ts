/**
 * Writes `tasks/mixed.jsonl`, questions that no model was trained on (but for `mod`, see task-kinds.ts), and for learning
 * within a team `tasks/train.jsonl` and `tasks/holdout.jsonl`, which share no question: `node write-tasks.ts`.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ask, isHeldOut, isThird, kinds, seededDraw, type Question } from './task-kinds.ts';

await write('mixed', 800, 71, (question) => question.kind === 'mod' || isHeldOut(question));
await write('train', 720, 72, (question) => !isApart(question));
await write('holdout', 360, 73, isApart);

/** Kept for measuring what was learned within a team. */
function isApart(question: Question): boolean {
  return question.kind === 'mod' ? isThird(question) : isHeldOut(question);
}

/** Kinds take turns, so that any first part of a file holds all of them equally. */
async function write(
  name: string,
  rows: number,
  seed: number,
  wanted: (question: Question) => boolean,
): Promise<void> {
  const draw = seededDraw(seed);
  const prompts = new Set<string>();
  const lines: string[] = [];
  while (lines.length < rows) {
    const question = ask(kinds[lines.length % kinds.length] ?? 'add', draw);
    if (!wanted(question) || prompts.has(question.prompt)) continue;
    prompts.add(question.prompt);
    const { kind, prompt, gold } = question;
    const id = `${name}-${String(lines.length + 1).padStart(4, '0')}`;
    lines.push(JSON.stringify({ id, prompt, gold, verifier: 'exact-match', task: kind }));
  }
  await writeFile(join(import.meta.dirname, 'tasks', `${name}.jsonl`), `${lines.join('\n')}\n`);
}
