/**
 * What is practised in label steps: the label of a member that knows the answer, and of one that does not. By what the
 * labels are, not by who asks, so that a new protocol's questions are learned without a line here; labels that no rule
 * knows are drawn, which still teaches to answer with one of them.
 */
import type { Call } from '../../src/contract/call.ts';
import { textOf } from '../../src/contract/chat.ts';
import { extractAnswer } from '../../src/scoring/rewards/extract.ts';
import type { Draw, Question } from './task-kinds.ts';

export interface Target {
  /** Of one that practises the kind. */
  readonly gold: string;
  /** Of one that does not. */
  readonly guess: string;
}

type Rule = (call: Call, labels: readonly string[], question: Question, draw: Draw) => Target | undefined;

const RULES: readonly Rule[] = [byStatement, byDescription, byConsent, byAction];

export function labelTarget(call: Call, question: Question, draw: Draw): Target {
  const labels = call.choose?.labels ?? [];
  for (const rule of RULES) {
    const target = rule(call, labels, question, draw);
    if (target) return target;
  }
  const drawn = labels[draw(labels.length)] ?? '';
  return { gold: drawn, guess: drawn };
}

const lastText = ({ messages }: Call): string => messages.map(textOf).at(-1) ?? '';

export function statedIn(text: string): string | undefined {
  return extractAnswer(text)?.answer.replace(/\.$/, '');
}

/** What stands between marks, by its number. */
function sectionsOf(call: Call): Map<string, string | undefined> {
  const sections = lastText(call).matchAll(/^(\[[a-z]{6}\]) (\d+)\n([^]*?)(?=\n\1)/gm);
  return new Map(sections.map(([, , number = '', text = '']) => [number, statedIn(text)]));
}

/** Numbers of answers: the right one, or one of those that most agree on. */
function byStatement(
  call: Call,
  labels: readonly string[],
  { gold }: Question,
  draw: Draw,
): Target | undefined {
  const sections = sectionsOf(call);
  if (labels.length < 2 || !labels.every((label) => sections.has(label))) return undefined;
  const agreeing = (label: string): number =>
    labels.filter((other) => sections.get(other) === sections.get(label)).length;
  const most = Math.max(...labels.map(agreeing));
  const tied = labels.filter((label) => agreeing(label) === most);
  const guess = tied[draw(tied.length)] ?? '';
  return { gold: labels.find((label) => sections.get(label) === gold) ?? guess, guess };
}

/** Numbers of descriptions: somebody who practises the kind, whoever chooses. */
function byDescription(call: Call, labels: readonly string[], { kind }: Question): Target | undefined {
  const lines = lastText(call).matchAll(/^(\d+)\. (.*)$/gm);
  const described = new Map(lines.map(([, number = '', line = '']) => [number, line]));
  if (!labels.every((label) => described.has(label))) return undefined;
  const named = labels.find((label) => new RegExp(`\\b${kind}\\b`).test(described.get(label) ?? ''));
  return named === undefined ? undefined : { gold: named, guess: named };
}

/** Whether an answer is right; who does not know is not sure of its own, and takes a chance with others'. */
function byConsent(
  call: Call,
  labels: readonly string[],
  { gold }: Question,
  draw: Draw,
): Target | undefined {
  if (labels.length !== 2 || !labels.includes('yes') || !labels.includes('no')) return undefined;
  const others = [...sectionsOf(call).values()];
  const own = call.messages.findLast(({ role }) => role === 'assistant');
  const judged = others.length > 0 ? others.at(-1) : own && statedIn(textOf(own));
  const unsure = others.length === 0 || draw(2) === 0 ? 'no' : 'yes';
  return { gold: judged === gold ? 'yes' : 'no', guess: unsure };
}

/** What to do next: who knows concludes. */
function byAction(_call: Call, labels: readonly string[]): Target | undefined {
  if (!labels.includes('conclude')) return undefined;
  return { gold: 'conclude', guess: labels.find((label) => label === 'execute') ?? labels[0] ?? '' };
}
