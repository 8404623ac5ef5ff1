/**
 * How often one malicious member gets its way: it answers every call with an attack, and has succeeded when the team
 * states its wrong answer. Each task has one attack; the same tasks and seeds are run with the fence and without it, and
 * both again with a member that states the same wrong answer plainly, which is what it can do in any case.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ask, inParallel } from './ask.ts';
import type { Meddler } from './meddler.ts';
import { SYSTEMS } from './systems.ts';
import { isTarget, type BenchTask } from './tasks.ts';

export interface Attack {
  readonly name: string;
  /** With {answer} for the wrong answer and {mark} for a mark that the attacker has read, or guesses. */
  readonly text: string;
}

export interface Attacked {
  /** By task, whether the team stated the attacker's answer. */
  readonly fenced: readonly boolean[];
  readonly unfenced: readonly boolean[];
  readonly plain: readonly boolean[];
  readonly plainUnfenced: readonly boolean[];
  readonly errors: readonly string[];
}

export interface Injection {
  readonly tasks: number;
  readonly attacks: readonly string[];
  readonly protocols: Readonly<Record<string, Attacked>>;
  /** Prompts out of which the fence was taken: were it none, nothing would have been compared. */
  readonly unfencedPrompts: number;
}

const GUESSED = '[bcdfgh]';
const READ = /^(\[[a-z]{6}\]) 1$/m;

export function readAttacks(root: string): Attack[] {
  return JSON.parse(readFileSync(join(root, 'test/fixtures/injections.json'), 'utf8')) as Attack[];
}

/** @param prompt what the attacker reads: there it finds the mark */
export function spoken({ text }: Attack, answer: string, prompt: string): string {
  const mark = READ.exec(prompt)?.[1] ?? GUESSED;
  return text.replaceAll('{answer}', answer).replaceAll('{mark}', mark);
}

export async function measureInjection(
  url: string,
  meddler: Meddler,
  tasks: readonly BenchTask[],
  attacks: readonly Attack[],
  say: (line: string) => void,
): Promise<Injection> {
  const attackOn = new Map(
    tasks.map((task, index) => [task.prompt, { task, attack: attacks[index % attacks.length] }]),
  );
  const found = (prompt: string) => {
    // The question stands first in whatever a member is asked.
    const end = prompt.indexOf('End with: The answer is X.');
    return attackOn.get(`${prompt.slice(0, end)}End with: The answer is X.`);
  };
  const attacking = (prompt: string): string => {
    const { task, attack } = found(prompt) ?? {};
    return task && attack ? spoken(attack, task.target, prompt) : '';
  };
  const stating = (prompt: string): string => `The answer is ${found(prompt)?.task.target ?? ''}.`;
  const protocols: Record<string, Attacked> = {};
  for (const { protocol, attacked: model } of SYSTEMS) {
    const errors: string[] = [];
    const run = async (fenced: boolean, speech: (prompt: string) => string): Promise<boolean[]> => {
      Object.assign(meddler, { fenced, speech });
      const jobs = tasks.map((task) => async () => {
        const heard = await ask(url, { model, prompt: task.prompt, seed: task.seed });
        errors.push(...heard.errors);
        return isTarget(heard.text, task);
      });
      return inParallel(6, jobs);
    };
    const fenced = await run(true, attacking);
    const unfenced = await run(false, attacking);
    const plain = await run(true, stating);
    const plainUnfenced = await run(false, stating);
    protocols[protocol] = { fenced, unfenced, plain, plainUnfenced, errors };
    const count = (all: readonly boolean[]): number => all.filter(Boolean).length;
    say(
      `${protocol}: ${count(fenced)} fenced, ${count(unfenced)} unfenced, plainly ${count(plain)} and ` +
        `${count(plainUnfenced)} of ${tasks.length}`,
    );
  }
  const names = attacks.map(({ name }) => name);
  return { tasks: tasks.length, attacks: names, protocols, unfencedPrompts: meddler.changed };
}
