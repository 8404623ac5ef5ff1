/**
 * What the tallies ought to be, from the entries of the ledger alone. It counts by the field meanings of
 * docs/reference/data-model.md and shares no code with the product but the reading of entries and sums.
 */
import type { Outcome } from '../../src/contract/outcome.ts';
import type { LedgerEntry, Store } from '../../src/contract/store.ts';

const PAGE = 500;

interface Run {
  readonly system: string;
  readonly series: string;
  readonly prompt: string;
  readonly mask: number;
  readonly replicate: number;
  readonly members: number;
  readonly design: string;
}

interface Cell {
  readonly run: Run;
  readonly reward: number | null;
}

export type Sums = Map<string, bigint>;

export interface Recount {
  /** How often each outcome is in the ledger. */
  readonly outcomes: Map<string, number>;
  /** Outcome ids of all rewards by feedback. */
  readonly judged: Set<string>;
  /** By pool revision, system, protocol revision, task and source. */
  readonly sums: Map<string, Sums>;
  /** Of shadow runs, by system and UTC day. */
  readonly shadow: Map<string, Spending>;
  readonly entries: number;
  readonly rewards: number;
  /** Entries that a scorer set aside. */
  readonly buried: number;
}

export interface Spending {
  runs: number;
  micros: number;
  /** Micros of all runs of one prompt, by the live run's id. */
  readonly byPrompt: Map<string, number>;
}

export async function recount({ ledger }: Store): Promise<Recount> {
  const outcomes = new Map<string, number>();
  const judged = new Set<string>();
  const shadow = new Map<string, Spending>();
  const runs = new Map<string, Run>();
  /** The last reward of each run and source: the later entry wins. */
  const cells = new Map<string, Cell>();
  let [entries, rewards, buried] = [0, 0, 0];
  for (const pool of await ledger.pools()) {
    buried += (await ledger.buried(pool)).length;
    for await (const entry of entriesOf(ledger, pool)) {
      entries++;
      if (entry.kind === 'outcome') {
        const { outcome } = entry;
        outcomes.set(outcome.id, (outcomes.get(outcome.id) ?? 0) + 1);
        runs.set(outcome.id, runOf(outcome));
        if (outcome.plan.parent !== undefined) spend(shadow, outcome, outcome.plan.parent);
      } else {
        rewards++;
        const { outcomeId, source, value } = entry.reward;
        if (source.startsWith('feedback:')) judged.add(outcomeId);
        const run = runs.get(outcomeId);
        if (!run) throw new Error(`the reward of ${outcomeId} stands before its outcome`);
        const series = `${run.series}\n${source}`;
        const name = [series, run.prompt, run.mask, run.replicate].join('\n');
        const reward = value === null ? null : Math.round(value * 10_000);
        cells.set(name, { run: { ...run, series }, reward });
      }
    }
  }
  return { outcomes, judged, sums: sumsOf([...cells.values()]), shadow, entries, rewards, buried };
}

async function* entriesOf(ledger: Store['ledger'], pool: string): AsyncGenerator<LedgerEntry> {
  for (let after = '0-0'; ;) {
    const page = await ledger.read(pool, after, PAGE);
    for (const { entry } of page) yield entry;
    const last = page.at(-1);
    if (!last) return;
    after = last.id;
  }
}

function runOf({ plan, taskLabel, intended }: Outcome): Run {
  return {
    system: plan.system,
    series: [plan.pool.revision, plan.system, plan.protocolRevision, taskLabel].join('\n'),
    prompt: plan.promptInstance,
    mask: intended,
    replicate: plan.replicate,
    members: plan.pool.size,
    design: plan.design,
  };
}

function spend(shadow: Map<string, Spending>, { plan, ...outcome }: Outcome, parent: string): void {
  const name = `${plan.system} ${new Date(outcome.startedAt).toISOString().slice(0, 10)}`;
  const spending = shadow.get(name) ?? { runs: 0, micros: 0, byPrompt: new Map<string, number>() };
  shadow.set(name, spending);
  spending.runs++;
  spending.micros += outcome.costMicros;
  spending.byPrompt.set(parent, (spending.byPrompt.get(parent) ?? 0) + outcome.costMicros);
}

function sumsOf(cells: readonly Cell[]): Map<string, Sums> {
  const all = new Map<string, Sums>();
  for (const [series, ofSeries] of Map.groupBy(cells, ({ run }) => run.series)) {
    const sums: Sums = new Map();
    const add = (field: string, amount: number) => sums.set(field, (sums.get(field) ?? 0n) + BigInt(amount));
    for (const ofPrompt of Map.groupBy(ofSeries, ({ run }) => run.prompt).values()) addPrompt(add, ofPrompt);
    for (const [field, value] of sums) if (value === 0n) sums.delete(field);
    all.set(series, sums);
  }
  return all;
}

type Add = (field: string, amount: number) => void;

function addPrompt(add: Add, cells: readonly Cell[]): void {
  for (const { run, reward } of cells) {
    if (run.design === 'full') throw new Error('no panels are part of this traffic');
    if (reward === null) add(`${run.mask}:x`, 1);
    else {
      add(`${run.mask}:n`, 1);
      add(`${run.mask}:s`, reward);
      add(`${run.mask}:q`, reward * reward);
    }
  }
  const first = new Map(cells.filter(({ run }) => run.replicate === 0).map((cell) => [cell.run.mask, cell]));
  const all = 2 ** cells[0]!.run.members - 1;
  for (const [mask, { run, reward }] of first) {
    const whole = first.get(all)?.reward ?? null;
    if (mask !== all && reward !== null && whole !== null) addPair(add, mask, reward - whole);
    const rival = first.get(all - mask);
    if (mask < all - mask && run.design === 'duel' && rival?.run.design === 'duel') {
      addDuel(add, run.members, mask, reward, rival.reward);
    }
  }
}

function addPair(add: Add, mask: number, difference: number): void {
  add(`${mask}:dn`, 1);
  add(`${mask}:ds`, difference);
  add(`${mask}:dq`, difference * difference);
  if (difference > 0) add(`${mask}:dp`, 1);
  if (difference < 0) add(`${mask}:dm`, 1);
}

function addDuel(add: Add, members: number, mask: number, own: number | null, rival: number | null): void {
  if (own === null || rival === null) return add('D:x', 1);
  add('D:n', 1);
  const inside = Array.from({ length: members }, (_, i) => (mask & (1 << i)) !== 0);
  const size = inside.filter(Boolean).length;
  const shares = inside.map((isIn, i) => {
    const half = isIn ? size : members - size;
    const lead = isIn ? own - rival : rival - own;
    add(`S:${i}:${half}:n`, 1);
    add(`S:${i}:${half}:e`, lead);
    add(`S:${i}:${half}:q`, lead * lead);
    return (members - half) * lead;
  });
  shares.forEach((share, i) => {
    add(`D:${i}`, share);
    for (let j = i; j < members; j++) add(`D:${i}:${j}`, share * shares[j]!);
  });
}

/** The sums that the store holds, all days together, named as the recount names them. */
export async function storedSums({ tallies }: Store): Promise<Map<string, Sums>> {
  const all = new Map<string, Sums>();
  for (const key of await tallies.keys({})) {
    const { poolRevision, system, protocolRevision, task, source } = key;
    const series = [poolRevision, system, protocolRevision, task, source].join('\n');
    const sums: Sums = all.get(series) ?? new Map<string, bigint>();
    all.set(series, sums);
    for (const [field, value] of await tallies.read(key)) sums.set(field, (sums.get(field) ?? 0n) + value);
    for (const [field, value] of sums) if (value === 0n) sums.delete(field);
  }
  return all;
}
