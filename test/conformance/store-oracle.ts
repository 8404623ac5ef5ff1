/**
 * The running sums computed anew from all events at once, without increments or retractions, and Shapley values from
 * all orders of the members: as unlike the stores' own computation as it can be.
 */
import type { TallyEvent } from '../../src/contract/store.ts';

type Sums = Map<string, bigint>;

/** The sums of every bucket that events, in order of delivery, must have left. */
export function recompute(events: readonly TallyEvent[]): Map<string, Sums> {
  const buckets = new Map<string, Sums>();
  for (const deliveries of Map.groupBy(events, ({ promptInstance }) => promptInstance).values()) {
    const bucket = deliveries[0]?.key.bucket ?? '';
    const sums = buckets.get(bucket) ?? new Map<string, bigint>();
    buckets.set(bucket, sums);
    addPrompt(sums, latest(deliveries));
  }
  for (const sums of buckets.values()) {
    for (const [field, value] of sums) if (value === 0n) sums.delete(field);
  }
  return buckets;
}

/** The newest event of each run, by entry id. */
function latest(deliveries: readonly TallyEvent[]): TallyEvent[] {
  const order = ({ entryId }: TallyEvent) => {
    const [ms = '0', seq = '0'] = entryId.split('-');
    return BigInt(ms) * 1_000_000n + BigInt(seq);
  };
  const runs = Map.groupBy(deliveries, ({ mask, replicate }) => `${mask}:${replicate}`);
  return [...runs.values()].map((versions) => versions.reduce((a, b) => (order(b) > order(a) ? b : a)));
}

function addPrompt(sums: Sums, cells: readonly TallyEvent[]): void {
  const add = (field: string, amount: number | bigint) =>
    void sums.set(field, (sums.get(field) ?? 0n) + BigInt(amount));
  for (const { mask, reward } of cells) {
    if (reward === null) add(`${mask}:x`, 1);
    else {
      add(`${mask}:n`, 1);
      add(`${mask}:s`, reward);
      add(`${mask}:q`, reward ** 2);
    }
  }
  const first = new Map(cells.filter(({ replicate }) => replicate === 0).map((cell) => [cell.mask, cell]));
  const n = cells[0]?.n ?? 0;
  addPairs(add, first, 2 ** n - 1);
  addDuels(add, first, n);
  if (n <= 8) addPanel(add, first, n);
}

type Adder = (field: string, amount: number | bigint) => void;
type Cells = ReadonlyMap<number, TallyEvent>;

function addPairs(add: Adder, cells: Cells, grand: number): void {
  const whole = cells.get(grand)?.reward ?? null;
  if (whole === null) return;
  for (const [mask, { reward }] of cells) {
    if (mask === grand || reward === null) continue;
    add(`${mask}:dn`, 1);
    add(`${mask}:ds`, reward - whole);
    add(`${mask}:dq`, (reward - whole) ** 2);
    add(`${mask}:dp`, reward > whole ? 1 : 0);
    add(`${mask}:dm`, reward < whole ? 1 : 0);
  }
}

function addDuels(add: Adder, cells: Cells, n: number): void {
  for (const [mask, cell] of cells) {
    const rival = cells.get(2 ** n - 1 - mask);
    // Each pair once: from the half that holds member 0.
    if (!rival || cell.design !== 'd' || rival.design !== 'd' || mask % 2 === 0) continue;
    if (cell.reward === null || rival.reward === null) {
      add('D:x', 1);
      continue;
    }
    const rewards = [rival.reward, cell.reward];
    const size = mask.toString(2).replaceAll('0', '').length;
    add('D:n', 1);
    const row = Array.from({ length: n }, (_, i) => {
      const inside = Math.floor(mask / 2 ** i) % 2;
      const half = inside ? size : n - size;
      const lead = (rewards[inside] ?? 0) - (rewards[1 - inside] ?? 0);
      add(`S:${i}:${half}:n`, 1);
      add(`S:${i}:${half}:e`, lead);
      add(`S:${i}:${half}:q`, lead ** 2);
      return (n - half) * lead;
    });
    row.forEach((value, i) => {
      add(`D:${i}`, value);
      for (let j = i; j < n; j++) add(`D:${i}:${j}`, value * (row[j] ?? 0));
    });
  }
}

function addPanel(add: Adder, cells: Cells, n: number): void {
  const grand = 2 ** n - 1;
  const v = (mask: number) => BigInt(mask === 0 ? 0 : (cells.get(mask)?.reward ?? 0));
  for (let mask = 1; mask <= grand; mask++) {
    const cell = cells.get(mask);
    if (!cell || cell.design !== 'f' || cell.reward === null) return;
  }
  const members = Array.from({ length: n }, (_, i) => i);
  const orders = permutations(members);
  const row = new Map<string, bigint>();
  for (const i of members) row.set(`u${i}`, 10n * v(2 ** i));
  for (const i of members) row.set(`l${i}`, 10n * (v(grand) - v(grand - 2 ** i)));
  for (const i of members) {
    let marginals = 0n;
    for (const order of orders) {
      const before = order.slice(0, order.indexOf(i)).reduce((mask, j) => mask + 2 ** j, 0);
      marginals += v(before + 2 ** i) - v(before);
    }
    const count = BigInt(orders.length);
    row.set(`c${i}`, roundHalfAway(10n * (BigInt(n) * marginals - count * v(grand)), count * BigInt(n)));
  }
  row.set('g', 10n * v(grand));
  const fields = [...row];
  fields.forEach(([field, value], i) => {
    add(`F:${field}:n`, 1n);
    add(`F:${field}:s`, value);
    add(`F:${field}:q`, value * value);
    for (const [other, factor] of fields.slice(i + 1)) add(`F:${field}:${other}`, value * factor);
  });
}

function permutations(items: readonly number[]): number[][] {
  if (items.length === 0) return [[]];
  return items.flatMap((first) =>
    permutations(items.filter((item) => item !== first)).map((rest) => [first, ...rest]),
  );
}

function roundHalfAway(numerator: bigint, denominator: bigint): bigint {
  const size = ((numerator < 0n ? -numerator : numerator) * 2n + denominator) / (2n * denominator);
  return numerator < 0n ? -size : size;
}
