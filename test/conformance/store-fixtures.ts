/** Outcomes, rewards and random tally events for the tests of stores. */
import { randomUUID } from 'node:crypto';
import type { Estimate } from '../../src/contract/estimate.ts';
import type { Outcome } from '../../src/contract/outcome.ts';
import type { LedgerEntry, TallyEvent, TallyKey } from '../../src/contract/store.ts';

export function outcomeOf(pool: string, changes: Partial<Outcome> = {}): Outcome {
  const usage = { inputTokens: 10, outputTokens: 20 };
  return {
    v: 1,
    id: randomUUID(),
    plan: {
      v: 1,
      id: randomUUID(),
      asked: 'consort/demo',
      system: 'demo',
      protocol: { name: 'single', version: 1 },
      protocolRevision: 'p1',
      pool: { id: pool, revision: 'r1', size: 2 },
      members: [],
      mask: 3,
      options: {},
      budget: { calls: 4, costMicros: null, deadlineMs: 1_000 },
      seed: 'seed',
      replicate: 0,
      promptInstance: 'prompt',
      cluster: 'prompt',
      tenant: 'default',
      choice: { source: 'config', propensity: 1 },
      design: 'live',
      configHash: 'c1',
      simulated: true,
    },
    taskLabel: 'default',
    verifier: 'exact-match',
    gold: '42',
    calls: [],
    answer: 'Yes.',
    answerFrom: ['a'],
    finishReason: 'stop',
    intended: 3,
    realised: 3,
    absences: [],
    status: 'ok',
    startedAt: 1_760_000_000_000,
    firstPartMs: 1,
    durationMs: 2,
    usage,
    costMicros: 3,
    simulated: true,
    ...changes,
  };
}

export function outcomeEntry(
  pool: string,
  changes: Partial<Outcome> = {},
): LedgerEntry & { kind: 'outcome' } {
  return { kind: 'outcome', pool, outcome: outcomeOf(pool, changes) };
}

export function rewardEntry(
  pool: string,
  outcomeId: string,
  value: number | null,
): LedgerEntry & { kind: 'reward' } {
  const source = 'feedback:user';
  const reward = {
    v: 1,
    id: `${outcomeId}/${source}`,
    outcomeId,
    value,
    status: 'ok',
    source,
    at: 1,
  } as const;
  return { kind: 'reward', pool, reward };
}

export function estimateOf(system: string, task: string, source: string, value: number): Estimate {
  return {
    v: 1,
    system,
    task,
    subject: 'a',
    metric: 'shapley',
    value,
    standardError: 0.1,
    interval: [value - 0.2, value + 0.2],
    level: 0.95,
    method: 't',
    clusters: 12,
    design: 'full',
    source,
    poolRevision: 'r1',
    protocolRevision: 'p1',
    status: 'UNRESOLVED',
    simulated: true,
    at: 1,
  };
}

/** Numbers in [0, 1) that depend on the seed alone (mulberry32). */
export function chance(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

function shuffle<T>(items: T[], random: () => number): T[] {
  for (let i = items.length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1));
    [items[i], items[j]] = [items[j] as T, items[i] as T];
  }
  return items;
}

type Run = Pick<TallyEvent, 'mask' | 'replicate' | 'design'>;

/** What is run on one prompt: a full panel, duels, leave-one-out with replicates, or a mixture. */
function runsOf(n: number, random: () => number): Run[] {
  const grand = 2 ** n - 1;
  const kind = random();
  const all = Array.from({ length: grand }, (_, i) => i + 1);
  if (kind < 0.4) return all.map((mask) => ({ mask, replicate: 0, design: 'f' }));
  if (kind < 0.7 && n > 1) {
    const mask = 1 + Math.floor(random() * (grand - 1));
    const halves: Run[] = [mask, grand - mask].map((half) => ({ mask: half, replicate: 0, design: 'd' }));
    return [...halves, { mask: grand, replicate: 0, design: '-' }];
  }
  return all
    .filter(() => random() < 0.6)
    .map((mask) => ({
      mask,
      replicate: random() < 0.2 ? 1 : 0,
      design: (['d', 'f', '-'] as const)[Math.floor(random() * 3)] ?? '-',
    }));
}

const rewardOf = (random: () => number, missing: number): number | null => {
  const draw = random();
  if (draw < missing) return null;
  return draw < 0.6 ? (random() < 0.5 ? 0 : 10_000) : Math.floor(random() * 10_001);
};

/** An ordinary event: member 0 alone, half right. */
export function eventOf(key: TallyKey): TallyEvent {
  const place = { group: 'score', entryId: '1700000000000-0', promptInstance: 'prompt' };
  return { key, ...place, mask: 1, n: 2, replicate: 0, reward: 5_000, design: '-' };
}

/** Deliveries of rewarded runs: revised, repeated and out of order, over two days. */
export function randomEvents(key: TallyKey, n: number, prompts: number, random: () => number): TallyEvent[] {
  const events: TallyEvent[] = [];
  let serial = 0;
  for (let prompt = 0; prompt < prompts; prompt++) {
    // Half of the prompts have missing rewards and changed designs; large panels are complete only without.
    const stray = random() < 0.5 ? 0.1 : 0;
    for (const one of runsOf(n, random)) {
      const versions = random() < 0.3 ? 2 + Math.floor(random() * 2) : 1;
      for (let version = 0; version < versions; version++) {
        serial += 1;
        const event: TallyEvent = {
          ...one,
          key: { ...key, bucket: random() < 0.5 ? '2026-01-01' : '2026-01-02' },
          group: 'score',
          entryId: `${1_700_000_000_000 + Math.floor(serial / 7)}-${serial % 7}`,
          promptInstance: `prompt ${prompt}`,
          n,
          reward: rewardOf(random, stray),
          design: version > 0 && random() < stray ? '-' : one.design,
        };
        events.push(event, ...(random() < 0.3 ? [event] : []));
      }
    }
  }
  return shuffle(events, random);
}
