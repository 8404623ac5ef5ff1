/** Simulated tasks: a question that names its own seed, from which every simulated model knows the answers. */
import type { TaskRow } from '../../../contract/task.ts';
import { uniform } from './chance.ts';
import { KINDS, type SimKind } from './pool.ts';

export interface SimTask {
  readonly kind: SimKind;
  readonly seed: number;
  readonly gold: string;
  readonly wrong: readonly string[];
}

const KIND_NAMES: readonly SimKind[] = ['reason', 'code', 'science'];
const PATTERN = /\bsim:(reason|code|science)\/(\d{1,15})\b/;

export function simTask(kind: SimKind, seed: number): SimTask {
  const first = 1000 + Math.floor(uniform('gold', kind, seed) * 8000);
  const numbers = Array.from({ length: KINDS[kind].wrongAnswers }, (_, index) => String(first + index + 1));
  return { kind, seed, gold: String(first), wrong: numbers };
}

/** The task that a text names, or undefined. */
export function readSimTask(text: string): SimTask | undefined {
  const match = PATTERN.exec(text);
  const kind = KIND_NAMES.find((known) => known === match?.[1]);
  return kind && simTask(kind, Number(match?.[2]));
}

function row(kind: SimKind, seed: number): TaskRow {
  const { gold } = simTask(kind, seed);
  return {
    id: `sim:${kind}/${seed}`,
    prompt: `Simulated task sim:${kind}/${seed}. Which four-digit number does it stand for? Give the final answer.`,
    gold,
    verifier: 'exact-match',
    task: kind,
  };
}

/**
 * `count` rows of a kind, or of the mixture. Seeds are disjoint for different `seed`s as long as `count` stays
 * below 10⁶.
 */
export function simRows(kind: SimKind | undefined, count: number, seed: number): TaskRow[] {
  return Array.from({ length: count }, (_, index) => {
    const number = seed * 1_000_000 + index;
    return row(kind ?? drawKind(number), number);
  });
}

/** The set that a name stands for: `sim` the mixture, `sim:<kind>` one kind; undefined for other names. */
export function simTaskSet(name: string): { readonly kind: SimKind | undefined } | undefined {
  if (name === 'sim') return { kind: undefined };
  const kind = KIND_NAMES.find((known) => name === `sim:${known}`);
  return kind && { kind };
}

function drawKind(seed: number): SimKind {
  let left = uniform('kind', seed);
  for (const kind of KIND_NAMES) {
    left -= KINDS[kind].weight;
    if (left < 0) return kind;
  }
  return 'science';
}
