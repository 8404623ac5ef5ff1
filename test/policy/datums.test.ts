import fc from 'fast-check';
import t from 'tap';
import type { Rollout, TrajectoryGroup, Turn } from '../../src/contract/trajectory.ts';
import { datumsOf, foldNormaliser, toWire, trainedTokens, type Datum } from '../../src/policy/datums.ts';
import { madeGroup, policyHeard, runOf, TOKENS, type Tokens } from '../support/trajectories.ts';

/** A group of two whose first rollout has these policy turns and a positive advantage. */
function groupWith(turns: readonly Tokens[], advantage = 0.5): { group: TrajectoryGroup; rollout: Rollout } {
  const heard = turns.map((tokens, index) => policyHeard(tokens, { slot: `turn-${index}/ada` }));
  const group = madeGroup([runOf(2 * advantage, { heard }), runOf(0)]);
  return { group, rollout: group.rollouts[0]! };
}

void t.test('a turn becomes a datum shifted by one', async (t) => {
  const { rollout } = groupWith([TOKENS]);
  t.same(datumsOf('g', rollout), [
    {
      groupId: 'g',
      rolloutId: rollout.rolloutId,
      turns: [0],
      tokens: [5, 6, 7, 8],
      targetTokens: [6, 7, 8, 9],
      logprobs: [0, 0, -0.4, -1.1],
      advantages: [0, 0, 0.5, 0.5],
      weights: [0, 0, 1, 1],
    },
  ]);
});

void t.test(
  'a turn goes onto an earlier one whose tokens its prompt starts with, and onto no other',
  async (t) => {
    const next = { prompt: [5, 6, 7, 8, 9, 1], ids: [2], logprobs: [-0.1] };
    const [joined, ...none] = datumsOf('g', groupWith([TOKENS, next]).rollout);
    t.equal(none.length, 0);
    t.match(joined!, {
      turns: [0, 1],
      tokens: [5, 6, 7, 8, 9, 1],
      targetTokens: [6, 7, 8, 9, 1, 2],
      logprobs: [0, 0, -0.4, -1.1, 0, -0.1],
      weights: [0, 0, 1, 1, 0, 1],
    });
    // One token of the response came out otherwise when its text was read again.
    for (const prompt of [[5, 6, 7, 8, 10, 1], [5, 6, 7, 8], [4, 6, 7, 8, 9, 1], [5, 6, 7, 8, 9].slice(1)]) {
      const apart = datumsOf('g', groupWith([TOKENS, { ...next, prompt }]).rollout);
      t.same(
        apart.map(({ turns }) => turns),
        [[0], [1]],
        prompt.join(' '),
      );
    }
    // Two that could both go onto the first: the second of them has it as context only.
    const fork = datumsOf('g', groupWith([TOKENS, next, { ...next, ids: [3] }]).rollout);
    t.same(
      fork.map(({ turns, weights }) => [turns, weights]),
      [
        [
          [0, 1],
          [0, 0, 1, 1, 0, 1],
        ],
        [[2], [0, 0, 0, 0, 0, 1]],
      ],
    );
    // Two conversations side by side.
    const other = { prompt: [1], ids: [2], logprobs: [-1] };
    const longer = { prompt: [1, 2, 3], ids: [4], logprobs: [-1] };
    const mixed = datumsOf('g', groupWith([TOKENS, other, next, longer]).rollout);
    t.same(
      mixed.map(({ turns }) => turns),
      [
        [0, 2],
        [1, 3],
      ],
    );
    t.equal(datumsOf('g', groupWith([TOKENS, next]).rollout, false).length, 2);
    // Of two that it could go onto, the longer.
    const long = { prompt: [5, 6, 7], ids: [8, 9, 1, 2], logprobs: [-1, -1, -1, -1] };
    const onto = datumsOf(
      'g',
      groupWith([TOKENS, long, { ...next, prompt: [5, 6, 7, 8, 9, 1, 2, 3] }]).rollout,
    );
    t.same(
      onto.map(({ turns }) => turns),
      [[0], [1, 2]],
    );
  },
);

void t.test('what teaches nothing is no datum', async (t) => {
  const { rollout } = groupWith([TOKENS]);
  t.same(datumsOf('g', { ...rollout, advantage: 0 }), []);
  t.same(datumsOf('g', { ...rollout, advantage: null }), []);
  const turns = rollout.turns.map((turn) => ({ ...turn, trainable: false }));
  t.same(datumsOf('g', { ...rollout, turns }), []);
  // The first token of all has nothing before it that it could be predicted from.
  const alone = { promptTokenIds: [], responseTokenIds: [1], responseLogprobs: [-1] };
  t.same(datumsOf('g', { ...rollout, turns: [{ ...rollout.turns[0]!, ...alone }] }), []);
});

void t.test('arrays that do not fit each other are refused, for servers pad them', async (t) => {
  const { rollout } = groupWith([TOKENS]);
  const broken = (more: Partial<Turn>) => ({ ...rollout, turns: [{ ...rollout.turns[0]!, ...more }] });
  t.throws(() => datumsOf('g', broken({ responseLogprobs: [-1] })), {
    message: 'turn 0 (turn-0/ada) has 2 token ids and 1 log-probs',
  });
  t.throws(() => datumsOf('g', broken({ responseLogprobs: [-1, NaN] })), /NaN among logprobs/);
  t.throws(() => datumsOf('g', { ...rollout, advantage: Infinity }), /Infinity among advantages/);
  const { group } = groupWith([TOKENS]);
  for (const lengthScale of [0, -1, NaN]) {
    t.throws(() => foldNormaliser([group], { reduction: 'sum', lengthScale }), RangeError);
  }
  const alike = madeGroup([runOf(1), runOf(1)]);
  t.throws(() => foldNormaliser([alike], { reduction: 'sum', lengthScale: 1 }), {
    message: 'group group-1 is not to be trained on: rewards-equal',
  });
});

void t.test('the wire form names types and shapes, and weights only where they are known', async (t) => {
  const [datum] = datumsOf('g', groupWith([TOKENS]).rollout);
  const wire = toWire(datum!, true);
  t.same(wire, {
    model_input: { chunks: [{ type: 'encoded_text', tokens: [5, 6, 7, 8] }] },
    loss_fn_inputs: {
      target_tokens: { data: [6, 7, 8, 9], dtype: 'int64', shape: [4] },
      logprobs: { data: [0, 0, -0.4, -1.1], dtype: 'float32', shape: [4] },
      advantages: { data: [0, 0, 0.5, 0.5], dtype: 'float32', shape: [4] },
      weights: { data: [0, 0, 1, 1], dtype: 'float32', shape: [4] },
    },
  });
  t.same(Object.keys(toWire(datum!, false).loss_fn_inputs), ['target_tokens', 'logprobs', 'advantages']);
});

const VOCABULARY = 5;
const STATES = 7;

/** Log-probs of the next token of a tiny model: one row of logits for each hash of the whole context. */
function rowOf(context: readonly number[]): number {
  return context.reduce((hash, id) => (hash * 31 + id + 1) % 10_007, 1) % STATES;
}

const THETA = Array.from({ length: STATES }, (_, row) =>
  Array.from({ length: VOCABULARY }, (_, token) => Math.sin(3 * row + 7 * token)),
);

/** Adds `factor` times the gradient of log π(token | context), times the ratio to the behaviour policy. */
function addGradient(
  into: number[][],
  context: readonly number[],
  token: number,
  lp: number,
  factor: number,
) {
  const row = rowOf(context);
  const exps = THETA[row]!.map((logit) => Math.exp(logit));
  const sum = exps.reduce((a, b) => a + b, 0);
  const ratio = exps[token]! / sum / Math.exp(lp);
  for (const [other, exp] of exps.entries()) {
    into[row]![other]! += factor * ratio * ((other === token ? 1 : 0) - exp / sum);
  }
}

const noGradient = () => THETA.map((row) => row.map(() => 0));

/** What a trainer with this reduction would descend. */
function serverGradient(datums: readonly Datum[], reduction: 'sum' | 'datum-mean'): number[][] {
  const gradient = noGradient();
  for (const datum of datums) {
    const { tokens, targetTokens, logprobs, advantages, weights } = datum;
    const share = reduction === 'sum' ? 1 : 1 / (trainedTokens(datum) * datums.length);
    for (const [position, target] of targetTokens.entries()) {
      const context = tokens.slice(0, position + 1);
      const factor = weights[position]! * advantages[position]! * share;
      addGradient(gradient, context, target, logprobs[position]!, factor);
    }
  }
  return gradient;
}

/** The objective straight from the turns, without datums. */
function objectiveGradient(groups: readonly TrajectoryGroup[], lengthScale: number): number[][] {
  const gradient = noGradient();
  for (const { rollouts, baseline } of groups) {
    for (const { advantage, turns } of rollouts) {
      const factor = (advantage ?? 0) / (groups.length * baseline.valid * lengthScale);
      for (const { promptTokenIds = [], responseTokenIds = [], responseLogprobs = [] } of turns) {
        for (const [position, id] of responseTokenIds.entries()) {
          const context = [...promptTokenIds, ...responseTokenIds.slice(0, position)];
          addGradient(gradient, context, id, responseLogprobs[position]!, factor);
        }
      }
    }
  }
  return gradient;
}

const token = fc.integer({ min: 0, max: VOCABULARY - 1 });
const some = fc.array(token, { minLength: 1, maxLength: 4 });
/** How a turn begins: after one of the turns before it, with more text between, or anew. */
const step = fc.record({
  onto: fc.option(fc.nat(3)),
  between: some,
  response: some,
  logprob: fc.integer({ min: 1, max: 30 }),
});
const turnTokens = fc.array(step, { minLength: 1, maxLength: 5 }).map((steps) => {
  const turns: Tokens[] = [];
  for (const { onto, between, response, logprob } of steps) {
    const before = onto === null ? undefined : turns[onto];
    turns.push({
      prompt: [...(before?.prompt ?? []), ...(before?.ids ?? []), ...between],
      ids: response,
      logprobs: response.map((_, index) => -(logprob + index) / 10),
    });
  }
  return turns;
});
const rolloutRun = fc.record({ reward: fc.constantFrom(0, 0.5, 1, null), turns: turnTokens });
const groups = fc
  .array(fc.array(rolloutRun, { minLength: 2, maxLength: 4 }), { minLength: 1, maxLength: 3 })
  .map((all) =>
    all.map((runs) =>
      madeGroup(
        runs.map(({ reward, turns }) =>
          runOf(reward, {
            heard: turns.map((tokens, index) => policyHeard(tokens, { slot: `turn-${index}/ada` })),
          }),
        ),
        { advantage: 'rloo' },
      ),
    ),
  );

const isSame = (a: number[][], b: number[][]) =>
  a.every((row, i) => row.every((x, j) => Math.abs(x - b[i]![j]!) <= 1e-9 * Math.max(1, Math.abs(x))));

void t.test('lengths are equal, and every trainable token is trained once', async (t) => {
  fc.assert(
    fc.property(groups, (made) =>
      made.every(({ groupId, rollouts }) =>
        rollouts.every((rollout) => {
          const datums = datumsOf(groupId, rollout);
          const trainable = rollout.advantage
            ? rollout.turns.reduce((sum, turn) => sum + turn.responseTokenIds!.length, 0)
            : 0;
          const fits = datums.every(
            ({ tokens, ...rest }) =>
              tokens.length > 0 &&
              [rest.targetTokens, rest.logprobs, rest.advantages, rest.weights].every(
                ({ length }) => length === tokens.length,
              ),
          );
          return fits && datums.reduce((sum, datum) => sum + trainedTokens(datum), 0) === trainable;
        }),
      ),
    ),
  );
  t.pass();
});

void t.test('joined turns have the gradient of turns apart', async (t) => {
  let joined = 0;
  fc.assert(
    fc.property(groups, (made) => {
      const all = (merge: boolean) =>
        made.flatMap(({ groupId, rollouts }) =>
          rollouts.flatMap((rollout) => datumsOf(groupId, rollout, merge)),
        );
      joined += all(false).length - all(true).length;
      return isSame(serverGradient(all(true), 'sum'), serverGradient(all(false), 'sum'));
    }),
  );
  t.ok(joined > 50, `${joined} turns were joined`);
});

void t.test('whatever the trainer’s reduction, it descends the same objective', async (t) => {
  fc.assert(
    fc.property(groups, fc.integer({ min: 1, max: 512 }), (all, lengthScale) => {
      const made = all.filter(({ filter }) => filter.accepted);
      fc.pre(made.length > 0);
      const right = objectiveGradient(made, lengthScale);
      return (['sum', 'datum-mean'] as const).every((reduction) =>
        isSame(serverGradient(foldNormaliser(made, { reduction, lengthScale }), reduction), right),
      );
    }),
  );
  t.pass();
});
