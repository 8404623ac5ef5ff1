/**
 * Checks a set of golds before it is used: a gold that its own verifier cannot read, or that more than one answer
 * satisfies, spoils every number computed with it.
 */
import { canonical } from './canonical.ts';
import type { PureVerifier } from './reward.ts';

export interface GoldRow {
  readonly id: string;
  readonly gold: unknown;
  readonly params?: unknown;
}

export interface GoldProblem {
  readonly id: string;
  /** `self`: does not score 1 against itself; the others: scores above 0 when it must not. */
  readonly kind: 'self' | 'empty' | 'negation' | 'other-gold';
  /** The completion that was graded wrongly. */
  readonly completion: string;
}

/** Other golds that each gold is tried against: enough to find a verifier that accepts anything. */
const RIVALS = 32;

/** What is wrong with the golds, in the order of the rows; empty when all is well. */
export function lintGolds(verifier: PureVerifier, rows: readonly GoldRow[]): GoldProblem[] {
  const texts = rows.map(({ gold }) => goldText(gold));
  return rows.flatMap((row, index) => {
    const text = texts[index] ?? '';
    const problems: GoldProblem[] = [];
    const expect = (
      kind: GoldProblem['kind'],
      completion: string,
      right: (reward: number | null) => boolean,
    ) => {
      const { reward } = verifier.grade({ completion, gold: row.gold, params: row.params ?? {} });
      if (!right(reward)) problems.push({ id: row.id, kind, completion });
    };
    const alone = Array.isArray(row.gold) ? row.gold.map(String) : [text];
    const joined =
      verifier.grade({ completion: text, gold: row.gold, params: row.params ?? {} }).reward === 1;
    if (!joined) for (const alias of alone) expect('self', alias, (reward) => reward === 1);
    expect('empty', '', (reward) => reward === 0);
    const opposite = negation(text);
    if (canonical(opposite) !== canonical(text)) expect('negation', opposite, (reward) => reward === 0);
    for (const rival of rivals(texts, index)) expect('other-gold', rival, (reward) => reward === 0);
    return problems;
  });
}

function goldText(gold: unknown): string {
  return Array.isArray(gold) ? gold.map(String).join(', ') : String(gold);
}

/** The opposite sign of a number; "not …" of words. */
function negation(text: string): string {
  const trimmed = text.trim();
  if (/^[-\u2212]/.test(trimmed)) return trimmed.slice(1);
  return /^[+$\\.\d]/.test(trimmed) ? `-${trimmed.replace(/^\+/, '')}` : `not ${trimmed}`;
}

/** Some golds of other rows, evenly spread, that mean something else. */
function rivals(texts: readonly string[], index: number): string[] {
  const own = canonical(texts[index] ?? '');
  const step = Math.max(1, Math.floor(texts.length / RIVALS));
  const found = new Set<string>();
  for (let offset = step; offset < texts.length; offset += step) {
    const text = texts[(index + offset) % texts.length] ?? '';
    if (canonical(text) !== own) found.add(text);
  }
  return [...found];
}
