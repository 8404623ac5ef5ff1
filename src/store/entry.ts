/**
 * A ledger entry as text, checked when it is read: one JSON object, and one for what its plan shares with others. A
 * line of the spool holds both; a store keeps each shared plan once.
 */
import Type from 'typebox';
import { Compile } from 'typebox/compile';
import { Estimate } from '../contract/estimate.ts';
import { Outcome } from '../contract/outcome.ts';
import { Reward } from '../contract/reward.ts';
import type { LedgerEntry } from '../contract/store.ts';
import { ownPlan, type SharedPlan, sharedPlan } from './shared-plan.ts';

const StoredEntry = Type.Union([
  Type.Object({ kind: Type.Literal('outcome'), pool: Type.String(), outcome: Outcome }),
  Type.Object({ kind: Type.Literal('reward'), pool: Type.String(), reward: Reward }),
]);

const entryCheck = Compile(StoredEntry);
const outcomeCheck = Compile(Type.Object({ outcome: Type.Object({ plan: Type.Object({}) }) }));
const estimatesCheck = Compile(Type.Array(Estimate));

/** An entry is written to the spool and then to the ledger: it is serialised once, on the gateway's event loop. */
const texts = new WeakMap<LedgerEntry, EntryText>();

export interface EntryText {
  /** The entry less what its plan shares. */
  readonly body: string;
  readonly plan: SharedPlan | undefined;
}

export function encodeEntry(entry: LedgerEntry): EntryText {
  let text = texts.get(entry);
  if (text === undefined) texts.set(entry, (text = textOf(entry)));
  return text;
}

function textOf(entry: LedgerEntry): EntryText {
  if (entry.kind === 'reward') return { body: JSON.stringify(entry), plan: undefined };
  const { plan } = entry.outcome;
  const body = JSON.stringify({ ...entry, outcome: { ...entry.outcome, plan: ownPlan(plan) } });
  return { body, plan: sharedPlan(plan) };
}

/** Whether somebody has something to do with it: a reward to tally, or an outcome to judge. */
export function isWork(entry: LedgerEntry): boolean {
  return entry.kind === 'reward' || entry.outcome.gold !== undefined;
}

/**
 * The entry, or nothing when the text is torn, foreign or of a version this program does not read.
 *
 * @param plan the text of what its plan shares; none when the body is whole
 */
export function decodeEntry(body: string, plan?: string | null): LedgerEntry | undefined {
  const value = parse(body);
  if (plan && isOutcome(value)) value.outcome.plan = { ...shared(plan), ...value.outcome.plan };
  return entryCheck.Check(value) ? value : undefined;
}

const isOutcome = (value: unknown): value is { outcome: { plan: object } } => outcomeCheck.Check(value);

function shared(plan: string): object {
  const value = parse(plan);
  return typeof value === 'object' && value !== null ? value : {};
}

/** JSON has no tab but an escaped one. */
const SEPARATOR = '\t';

/** An entry as a line that says all of it, for the spool. */
export function encodeLine(entry: LedgerEntry): string {
  const { body, plan } = encodeEntry(entry);
  return plan ? `${body}${SEPARATOR}${plan.text}\n` : `${body}\n`;
}

export function decodeLine(line: string): LedgerEntry | undefined {
  const [body = '', plan] = line.split(SEPARATOR);
  return decodeEntry(body, plan);
}

export const encodeEstimates = (estimates: readonly Estimate[]): string => JSON.stringify(estimates);

/** The estimates, none when the text is not a list of them: they are published again soon. */
export function decodeEstimates(text: string): Estimate[] {
  const value = parse(text);
  return estimatesCheck.Check(value) ? value : [];
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
