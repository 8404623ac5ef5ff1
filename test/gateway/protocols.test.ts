import t from 'tap';
import type { Call } from '../../src/contract/call.ts';
import { textOf } from '../../src/contract/chat.ts';
import { protocols } from '../../src/gateway/protocols/index.ts';
import { protocolConformance, type Row } from '../conformance/protocol.ts';

const ALONE = { calls: 1, path: 1, widest: 1 };

/** The router names the strongest of those that it is shown; the members' descriptions hold their names here. */
const nameStrongest = (labels: readonly string[], { messages }: Call) => {
  const prompt = messages.map(textOf).join('\n');
  const lines = labels.map((label) => new RegExp(`^${label}\\. .*`, 'm').exec(prompt)?.[0].slice(3) ?? '');
  return labels[lines.indexOf(lines.toSorted()[0] ?? '')] ?? '';
};

/** Tokens of which none was likely: each of two was as likely as the other. */
const doubtful = (words: string) => ({
  logprobs: [...words].map((token) => ({
    token,
    logprob: -1,
    top_logprobs: [token, '?'].map((other) => ({ token: other, logprob: -1 })),
  })),
});

const ONE = { calls: 1, path: 1, widest: 1 };

/** Nine words and the end, each asked of all, and the vocabulary besides; a member goes on alone with its own words. */
const TOKENS = {
  takes: (n: number) => (n === 1 ? ONE : { calls: 11 * n, path: 10, widest: 2 * n }),
  writesTogether: true,
  readsItself: true,
} as const;

/** A member that says nothing more has ended the text. */
const PIECES = { writesTogether: true, readsItself: true, mayAddNothing: true } as const;

/**
 * What each protocol is run with besides its defaults: options whose code takes another way, and what the suite must
 * know of it (the fields of `Row`). A protocol without an entry is run with its defaults.
 */
const ROWS: Readonly<Record<string, readonly Omit<Row, 'protocol'>[]>> = {
  vote: [{}, { options: { samples: 3, ties: 'random' } }],
  debate: [{}, { options: { rounds: 1 } }, { options: { rounds: 3, ties: 'random' } }],
  fuse: [{}, { options: { fuserDrafts: false } }],
  // Nothing is an answer before the one who was named speaks.
  route: [
    { pick: nameStrongest, answersFrom: Infinity },
    { options: { showPrices: true }, pick: nameStrongest, answersFrom: Infinity },
  ],
  // Nobody keeps its answer, so that all are asked and the last speaks.
  cascade: [
    {
      options: { mode: 'ask' },
      pick: ([, no]) => no,
      shared: (n) => 2 * n - 1,
      readsItself: true,
      speaksOnce: true,
    },
    {
      carries: doubtful,
      takes: (n) => ({ calls: n, path: n, widest: 1 }),
      speaksOnce: true,
    },
    // Without log-probabilities it asks.
    { pick: ([, no]) => no, shared: (n) => 2 * n - 1, readsItself: true, speaksOnce: true },
  ],
  mux: [
    { options: { samples: 3 } },
    {
      options: { samples: 2, ties: 'random', calibration: { bob: [0.1, 1], cyd: [1] } },
      waitsForAll: true,
    },
  ],
  'logit-fusion': [{ ...TOKENS }, { options: { weights: { bob: 3 } }, ...TOKENS }],
  'logit-contrast': [{ ...TOKENS }, { options: { k: 2, lambda: 1 }, ...TOKENS }],
  // The guide's first word, the base's others, and the guide's end.
  nudge: [
    {
      takes: (n) => (n === 1 ? ONE : { calls: 3, path: 3, widest: 1 }),
      ...PIECES,
    },
    // The base is never sure: the guide's one piece gives each word, and the base is asked before all but the first.
    {
      options: { gamma: 0.95, bases: ['cyd'], guides: ['bob'] },
      takes: (n) => (n === 1 ? ONE : { calls: 9, path: 9, widest: 1 }),
      ...PIECES,
    },
  ],
  mentor: [
    {
      options: { share: 0, patch: 4 },
      takes: (n) => (n === 1 ? ONE : { calls: 3, path: 3, widest: 1 }),
      ...PIECES,
    },
    // A word a piece but for the last two, the mentor asked at each, and once they differ: in their own names.
    {
      options: { share: 1, patch: 2 },
      takes: (n) => (n === 1 ? ONE : { calls: 18, path: 18, widest: 1 }),
      ...PIECES,
    },
  ],
  // A selection before each of three pieces.
  switch: [
    {
      options: { patch: 3 },
      takes: (n) => (n === 1 ? ONE : { calls: 6, path: 6, widest: 1 }),
      answersFrom: 3,
      ...PIECES,
    },
  ],
  mixture: [
    // One layer is of class B: first answers are shared, and each coalition aggregates them.
    { shared: (n) => n + (2 ** n - n - 1) },
    {
      options: { layers: 3 },
      shared: (n) => n + 2 * (n * 2 ** (n - 1) - n) + (2 ** n - n - 1),
    },
  ],
  // Answers that state the same leave nothing to judge.
  'best-of-n': [
    { disagrees: true },
    {
      options: { samples: 2, judges: ['cyd'] },
      disagrees: true,
      // A coalition of one judges its own samples, too.
      shared: (n) => 2 * n + (2 ** n - 1),
    },
    {
      options: { mode: 'grade' },
      disagrees: true,
      readsItself: true,
      // The first of a coalition grades itself and all that come after it; the last is never first.
      shared: (n) => n + (n * (n + 1)) / 2 - 1,
    },
    { options: { mode: 'grade', samples: 2 }, disagrees: true, readsItself: true, shared: () => undefined },
  ],
  'rank-fuse': [
    // The first of a coalition compares all pairs of it, in both orders; the best three of all four are a coalition.
    { disagrees: true, shared: (n) => n + (n * (n + 1) * (n - 1)) / 3 + (2 ** n - n - 2) },
    { options: { topK: 2, rankers: ['cyd'], fusers: ['bob'] }, disagrees: true, shared: () => undefined },
  ],
  refine: [
    { shared: (n) => n + (n * 2 ** (n - 1) - n) + (2 ** n - n - 1) },
    // 71 calls for four members, against 111 of fifteen runs on their own.
    {
      options: { rounds: 3, summarisers: ['cyd'] },
      shared: (n) => n + 2 * (n * 2 ** (n - 1) - n) + (2 ** n - n - 1),
    },
  ],
  feedback: [
    // Who criticises depends on the answer alone, so that remarks are shared, too.
    { shared: (n) => n + n * (n - 1) + (n * 2 ** (n - 1) - n) + (2 ** n - n - 1) },
    { options: { rounds: 3, critics: 1 }, shared: () => undefined },
  ],
  structured: [
    // Of a star's hub all are neighbours, which have answered once.
    { shared: (n) => n + (2 ** n - n - 1) },
    {
      options: { graph: 'complete', rounds: 3 },
      shared: (n) => n + (n * 2 ** (n - 1) - n) + (2 ** n - n - 1),
    },
    { options: { graph: 'chain', rounds: 3 }, shared: () => undefined },
    // Below the root, with two children of its own among five.
    {
      options: { graph: 'tree', answerers: ['bob'] },
      takes: (n) =>
        n === 1 ? ONE : n === 5 ? { calls: 5, path: 2, widest: 4 } : { calls: 3, path: 2, widest: 2 },
      shared: () => undefined,
    },
    // The first reads the others, who read nobody.
    {
      options: { reads: { ada: ['bob', 'cyd', 'dan', 'eve'] } },
      shared: () => undefined,
    },
  ],
  swarm: [
    {},
    // The second speaks; a chain of three ends in it, and whoever the tree does not name.
    {
      options: { tree: { bob: null, ada: 'bob', cyd: 'ada' } },
      takes: (n) => {
        if (n < 3) return n === 1 ? ONE : { calls: 2, path: 2, widest: 1 };
        return { calls: n, path: 3, widest: n - 2 };
      },
    },
  ],
  // No passage is an answer. All cards are shared; each coalition has an answer of its own, those of one a plain one.
  'knowledge-card': [
    { answersFrom: Infinity, shared: (n) => n + (2 ** n - 1) },
    // The first of four is never asked for a passage.
    {
      options: { excludeAnswerer: true },
      answersFrom: Infinity,
      shared: (n) => n - 1 + (2 ** n - 1),
    },
  ],
  relay: [
    { disagrees: true, speaksOnce: true },
    { options: { order: 'seeded', untilAgreement: false }, speaksOnce: true },
    { options: { order: ['cyd', 'ada'], untilAgreement: false }, speaksOnce: true },
  ],
  blackboard: [
    // Nobody concludes before the end: one does so from the board.
    {
      takes: (n) => (n === 1 ? ONE : { calls: 6 * n + 1, path: 7, widest: n }),
      answersFrom: Infinity,
      tiesAreNotOfMembers: true,
    },
    // All conclude in the second iteration, and vote.
    {
      options: { maxIterations: 2, stopAt: 9, ties: 'random' },
      pick: ([first], { slot }) => (slot.startsWith('act-2') ? 'conclude' : first),
      answersFrom: 5,
      tiesAreNotOfMembers: true,
    },
    {
      options: { agents: 1, maxIterations: 2 },
      answersFrom: Infinity,
      tiesAreNotOfMembers: true,
      readsItself: true,
    },
  ],
  // With samples a coalition of one aggregates, too.
  aggregate: [{}, { options: { samples: 3 }, shared: (n) => 3 * n + (2 ** n - 1) }],
  // Those who agree leave nothing to choose; an anchor whose samples agree keeps its answer.
  anchor: [
    { disagrees: true },
    { takes: (n) => (n === 1 ? ALONE : { calls: 2, path: 2, widest: 1 }), shared: (n) => n },
    {
      carries: doubtful,
      takes: (n) => (n === 1 ? ALONE : { calls: 2, path: 2, widest: 1 }),
      shared: (n) => n,
    },
    {
      options: { anchorSamples: 3 },
      takes: (n) => (n === 1 ? ALONE : { calls: 3, path: 1, widest: 3 }),
      shared: (n) => n + 2 * (n - 1),
    },
  ],
  // The corrector keeps the draft, or objects to it.
  'three-roles': [
    { takes: () => ({ calls: 2, path: 2, widest: 1 }), blind: true, readsItself: true },
    {
      options: { alone: 'plain', correctors: ['cyd'] },
      takes: (n) => (n === 1 ? ONE : { calls: 4, path: 4, widest: 1 }),
      pick: ([, change]) => change,
      blind: true,
      readsItself: true,
    },
  ],
  'generate-verify-refine': [
    {},
    { options: { passes: 1 } },
    { options: { generators: ['ada'], verifiers: ['ada'] }, readsItself: true },
  ],
};

for (const protocol of protocols) {
  for (const row of ROWS[protocol.name] ?? [{}]) protocolConformance(t, { protocol, ...row });
}
