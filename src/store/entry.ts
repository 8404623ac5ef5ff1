/** A ledger entry as text: one JSON object, checked when it is read. Spool lines and both stores hold the same. */
import Type from 'typebox';
import { Compile } from 'typebox/compile';
import { Estimate } from '../contract/estimate.ts';
import { Outcome } from '../contract/outcome.ts';
import { Reward } from '../contract/reward.ts';
import type { LedgerEntry } from '../contract/store.ts';

const StoredEntry = Type.Union([
  Type.Object({ kind: Type.Literal('outcome'), pool: Type.String(), outcome: Outcome }),
  Type.Object({ kind: Type.Literal('reward'), pool: Type.String(), reward: Reward }),
]);

const entryCheck = Compile(StoredEntry);
const estimatesCheck = Compile(Type.Array(Estimate));

/** An entry is written to the spool and then to the ledger: it is serialised once, on the gateway's event loop. */
const texts = new WeakMap<LedgerEntry, string>();

export function encodeEntry(entry: LedgerEntry): string {
  let text = texts.get(entry);
  if (text === undefined) texts.set(entry, (text = JSON.stringify(entry)));
  return text;
}

/** Whether somebody has something to do with it: a reward to tally, or an outcome to judge. */
export function isWork(entry: LedgerEntry): boolean {
  return entry.kind === 'reward' || entry.outcome.gold !== undefined;
}

/** The entry, or nothing when the text is torn, foreign or of a version this program does not read. */
export function decodeEntry(text: string): LedgerEntry | undefined {
  const value = parse(text);
  return entryCheck.Check(value) ? value : undefined;
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
