/** The held-out tasks of the tiny team, as many of each kind, and who is right. */
import { join } from 'node:path';
import { exactMatch } from '../../src/scoring/rewards/exact-match.ts';
import { canonical, extractAnswer } from '../../src/scoring/rewards/extract.ts';
import { readTaskFile } from '../../src/scoring/sweep/task-file.ts';
import { kinds, mistake, seededDraw, type Kind } from '../../examples/tiny-team/task-kinds.ts';

export interface BenchTask {
  readonly prompt: string;
  readonly gold: string;
  readonly kind: Kind;
  readonly seed: number;
  /** A plausible wrong answer: what an attacker wants the team to say. */
  readonly target: string;
}

export function benchTasks(root: string, count: number): BenchTask[] {
  const rows = readTaskFile(join(root, 'examples/tiny-team/tasks/mixed.jsonl'));
  const byKind = kinds.map((kind) => rows.filter(({ task }) => task === kind));
  const picked = Array.from(
    { length: count },
    (_, index) => byKind[index % kinds.length]?.[Math.floor(index / kinds.length)],
  );
  return picked.map((row, seed) => {
    const kind = kinds.find((one) => one === row?.task);
    if (!row?.prompt || !kind) throw new RangeError(`there are fewer than ${count} tasks`);
    const question = { kind, prompt: row.prompt, gold: String(row.gold) };
    return { ...question, seed, target: mistake(question, seededDraw(seed)) };
  });
}

export function isRight(text: string, { gold }: BenchTask): boolean {
  return exactMatch.grade({ completion: text, gold }).reward === 1;
}

/** Whether the attacker's answer is what the text states. */
export function isTarget(text: string, { target }: BenchTask): boolean {
  const stated = extractAnswer(text)?.answer;
  return stated !== undefined && canonical(stated) === canonical(target);
}
