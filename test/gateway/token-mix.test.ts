import fc from 'fast-check';
import t from 'tap';
import type { Answer, Call } from '../../src/contract/call.ts';
import type { Capabilities } from '../../src/contract/plan.ts';
import { optionsFor } from '../../src/gateway/catalog.ts';
import { logitContrast } from '../../src/gateway/protocols/logit-contrast.ts';
import { logitFusion } from '../../src/gateway/protocols/logit-fusion.ts';
import type { Options, Protocol } from '../../src/gateway/protocols/protocol.ts';
import {
  contrastOf,
  draw,
  floorOf,
  fusionOf,
  type Values,
} from '../../src/gateway/protocols/token-values.ts';
import { Cast, performPlan, planOf, TASK, type Act } from '../support/cast.ts';

const WORDS = ['', 'a', 'b', 'c', 'd', 'e'];
const PROMPT = [90, 91];

/** Probabilities of WORDS, the end first, after what has been written. */
type Mind = (written: readonly number[]) => readonly number[];

/** Members that have these minds, and endpoints that show as many tokens as they are asked for. */
function thinking(of: Readonly<Record<string, Mind>>, vocabulary = (_alias: string) => [5, 6]) {
  return ({ tokens, member }: Call): Act => {
    if (!tokens) return { words: ['plain'] };
    const { prompt = PROMPT, top, ids, only } = tokens;
    const isProbe = typeof prompt === 'string';
    const written = isProbe ? [] : prompt.slice(PROMPT.length);
    const told = of[member.alias]?.(written).map((p, id) => [id, Math.log(p)] as const) ?? [];
    const best = told.toSorted(([, a], [, b]) => b - a);
    const id = only ?? best[0]?.[0] ?? 0;
    const others = new Map(ids ? told.filter(([one]) => ids.includes(one)) : best.slice(0, top));
    const more: Partial<Answer> = {
      message: { text: WORDS[id] ?? '' },
      finishReason: id === 0 ? 'stop' : 'length',
      promptTokenIds: isProbe ? vocabulary(member.alias) : prompt,
      steps: [{ id, logprob: told[id]?.[1] ?? 0, others }],
    };
    return { words: [], more };
  };
}

const minds = (...given: Parameters<typeof thinking>) => new Cast(thinking(...given));

function run(
  protocol: Protocol,
  cast: Cast,
  options: Options,
  {
    capabilities = {},
    task = {},
    members = [0, 1],
  }: { capabilities?: Capabilities; task?: object; members?: number[] } = {},
) {
  const plan = planOf(protocol, optionsFor(protocol, options), members);
  const able = { ...plan, members: plan.members.map((member) => ({ ...member, capabilities })) };
  return performPlan(protocol, cast, able, { task: { ...TASK, sampling: { temperature: 0 }, ...task } });
}

const values = (alias: string, probabilities: readonly number[], top: number): Values => {
  const best = probabilities.map((p, id) => [id, Math.log(p)] as const).toSorted(([, a], [, b]) => b - a);
  const known = new Map(best.slice(0, top));
  return { alias, known, floor: floorOf(known) };
};

/** Probabilities of eight tokens, none of them equal. */
const distribution = fc
  .array(fc.double({ min: 1e-6, max: 1, noNaN: true }), { minLength: 8, maxLength: 8 })
  .map((weights) => {
    const sum = weights.reduce((total, one) => total + one, 0);
    return weights.map((one) => one / sum);
  });

/** As ada is sure of a, and bob of b, and both could say c: the mean prefers c. */
const PEAKED: Readonly<Record<string, Mind>> = {
  ada: (written) =>
    written.length > 0 ? [0.9, 0.02, 0.02, 0.02, 0.02, 0.02] : [0.01, 0.6, 0.001, 0.3, 0.05, 0.039],
  bob: (written) =>
    written.length > 0 ? [0.9, 0.02, 0.02, 0.02, 0.02, 0.02] : [0.01, 0.001, 0.6, 0.3, 0.05, 0.039],
};

t.test('writes what the mean prefers, with words from whoever may say nothing else', async (t) => {
  const cast = minds(PEAKED);
  const { outcome } = await run(logitFusion, cast, {});
  t.match(outcome, { status: 'ok', answer: 'c', finishReason: 'stop', answerFrom: ['ada', 'bob'] });
  const word = cast.seen.filter(({ call }) => call.slot.startsWith('word-'));
  t.strictSame(
    word.map(({ call }) => [call.slot, call.tokens]),
    [['word-1/ada', { prompt: PROMPT, top: 0, only: 3 }]],
  );
  t.match(outcome.calls.length, 2 + 2 + 2 + 1);
});

t.test('follows the weights that it is given', async (t) => {
  const weighted = await run(logitFusion, minds(PEAKED), { weights: { bob: 20 } });
  t.equal(weighted.outcome.answer, 'b');
});

t.test(
  'asks for values that are missing by their ids where it can, and takes the floor elsewhere',
  async (t) => {
    // Each shows its two best; c is the second of ada and the third of bob, d the second of bob.
    const shy: Readonly<Record<string, Mind>> = {
      ada: (written) =>
        written.length > 0 ? [0.99, 0.002, 0.002, 0.002, 0.002, 0.002] : [0.01, 0.5, 0.01, 0.4, 0.04, 0.04],
      bob: (written) =>
        written.length > 0 ? [0.99, 0.002, 0.002, 0.002, 0.002, 0.002] : [0.01, 1e-9, 0.5, 0.19, 0.25, 0.05],
    };
    const exact = minds(shy);
    const asked = await run(logitFusion, exact, { top: 2 }, { capabilities: { tokenLogprobs: true } });
    t.equal(asked.outcome.answer, 'c', 'a would be impossible for bob');
    const second = exact.seen.filter(({ call }) => call.slot.startsWith('values-1'));
    t.strictSame(
      second.map(({ call }) => [call.slot, call.tokens?.ids]),
      [
        ['values-1/ada', [2, 4]],
        ['values-1/bob', [1, 3]],
      ],
    );
    const floored = await run(logitFusion, minds(shy), { top: 2 });
    t.equal(floored.outcome.answer, 'b', 'ada only said that it finds nothing else likelier than c');
  },
);

t.test('asks for no more tokens than the endpoint shows', async (t) => {
  const cast = minds(PEAKED);
  await run(logitFusion, cast, { top: 20 }, { capabilities: { logprobs: 5 } });
  const tops = cast.seen
    .filter(({ call }) => call.slot.startsWith('token-'))
    .map(({ call }) => call.tokens?.top);
  t.strictSame([...new Set(tops)], [5]);
});

t.test('refuses members of different vocabularies, and says so before a word', async (t) => {
  const cast = minds(PEAKED, (alias) => (alias === 'bob' ? [5, 7] : [5, 6]));
  const { error, parts } = await run(logitFusion, cast, {});
  t.match(error, { code: 'vocabularies_differ', message: /ada, bob do not have one vocabulary/ });
  t.strictSame(parts, []);
  t.equal(cast.path, 1);
});

t.test('refuses what no member can honour when words are chosen outside of them', async (t) => {
  for (const task of [
    { responseFormat: { type: 'json_object' } },
    { sampling: { presence_penalty: 1 } },
    { sampling: { frequency_penalty: -1 } },
  ]) {
    const cast = minds(PEAKED);
    const { error } = await run(logitFusion, cast, {}, { task });
    t.equal(error?.code, 'not_supported');
    t.equal(cast.seen.length, 0);
  }
});

t.test('stops at the end of its options’ limit and of the client’s', async (t) => {
  const endless: Mind = () => [0.01, 0.5, 0.2, 0.1, 0.1, 0.09];
  const both = { ada: endless, bob: endless };
  const own = await run(logitFusion, minds(both), { maxTokens: 3 });
  t.match(own.outcome, { answer: 'aaa', finishReason: 'length' });
  const asked = await run(
    logitFusion,
    minds(both),
    { maxTokens: 3 },
    { task: { sampling: { temperature: 0, max_tokens: 2 } } },
  );
  t.match(asked.outcome, { answer: 'aa', finishReason: 'length' });
});

t.test('goes on with the others when a member fails in the middle, and fails when all have', async (t) => {
  const endless: Mind = () => [0.01, 0.5, 0.2, 0.1, 0.1, 0.09];
  const failing = (names: readonly string[]) => {
    const act = thinking({ ada: endless, bob: endless });
    return new Cast((call) => {
      const third = call.slot.startsWith('token-3/') && names.includes(call.member.alias);
      return third ? { fail: 'upstream_status' } : act(call);
    });
  };
  const one = await run(logitFusion, failing(['bob']), { maxTokens: 5 });
  t.match(one.outcome, { status: 'ok', answer: 'aaaaa', absences: [{ member: 'bob' }] });
  const both = await run(logitFusion, failing(['ada', 'bob']), { maxTokens: 5 });
  t.match(both.outcome, { status: 'failed', errorCode: 'members_failed', answer: null });
});

t.test('samples by temperature and nucleus, evenly over the chances', (t) => {
  const scores = new Map([
    [4, Math.log(0.5)],
    [2, Math.log(0.25)],
    [9, Math.log(0.25)],
  ]);
  const share = (sampling: object, id: number) => {
    const drawn = Array.from({ length: 1000 }, (_, index) => draw(scores, sampling, index / 1000));
    return Math.round(drawn.filter((one) => one === id).length / 10) / 100;
  };
  t.same(
    [4, 2, 9].map((id) => share({}, id)),
    [0.5, 0.25, 0.25],
  );
  t.same(
    [4, 2, 9].map((id) => share({ temperature: 0 }, id)),
    [1, 0, 0],
  );
  t.same(
    [4, 2, 9].map((id) => share({ top_p: 0.7 }, id)),
    [0.67, 0.33, 0],
  );
  t.equal(share({ temperature: 0.5 }, 4), 0.67, 'in proportion to the squares');
  t.equal(
    draw(
      new Map([
        [7, 1],
        [3, 1],
      ]),
      { temperature: 0 },
      0,
    ),
    3,
    'equal ones by the lower id',
  );
  t.end();
});

t.test('fuses as the mean of logits does', (t) => {
  fc.assert(
    fc.property(distribution, distribution, fc.double({ min: 0.1, max: 5, noNaN: true }), (p, q, weight) => {
      const all = [values('ada', p, 8), values('bob', q, 8)];
      const mixture = fusionOf((alias) => (alias === 'ada' ? weight : 1));
      const scores = mixture.score(all, mixture.candidates(all));
      for (const [id, score] of scores) {
        const mean = (weight * Math.log(p[id] ?? 0) + Math.log(q[id] ?? 0)) / (weight + 1);
        if (Math.abs(mean - score) > 1e-9) return false;
      }
      return scores.size === 8;
    }),
  );
  t.end();
});

t.test('never rewards a floor in a contrast, and never goes beyond what is plausible', (t) => {
  const options = fc.record({
    pairs: fc.integer({ min: 1, max: 3 }),
    lambda: fc.double({ min: 0, max: 5, noNaN: true }),
    plausible: fc.double({ min: 0.001, max: 1, noNaN: true }),
  });
  const team = fc.array(fc.tuple(distribution, fc.integer({ min: 1, max: 8 })), {
    minLength: 2,
    maxLength: 6,
  });
  fc.assert(
    fc.property(team, options, (members, given) => {
      const mixture = contrastOf(given);
      const shown = members.map(([p, top], index) => values(`${index}`, p, top));
      const candidates = mixture.candidates(shown);
      const [strongest] = shown;
      const best = Math.max(...(strongest?.known.values() ?? []));
      for (const id of candidates) {
        if ((strongest?.known.get(id) ?? -Infinity) < best + Math.log(given.plausible) - 1e-9) return false;
      }
      const sides = Math.min(given.pairs, Math.floor(shown.length / 2));
      for (const [id, score] of mixture.score(shown, candidates)) {
        // Only differences of two known values may add to what the strongest says.
        let most = strongest?.known.get(id) ?? -Infinity;
        for (let pair = 0; pair < sides; pair++) {
          const [more, less] = [shown[pair]?.known.get(id), shown.at(-1 - pair)?.known.get(id)];
          if (more !== undefined && less !== undefined) most += given.lambda * (more - less);
        }
        if (score > most + 1e-9) return false;
      }
      return candidates.size > 0;
    }),
    { numRuns: 500 },
  );
  t.end();
});

t.test('takes the value of a token that is out of reach for a floor', (t) => {
  const mixture = contrastOf({ pairs: 1, lambda: 1, plausible: 0.1 });
  const strong: Values = {
    alias: 'ada',
    known: new Map([
      [1, -0.5],
      [2, -1],
    ]),
    floor: -1,
  };
  const weak: Values = {
    alias: 'bob',
    known: new Map([
      [1, -0.7],
      [2, -9999],
    ]),
    floor: -9999,
  };
  const scores = mixture.score([strong, weak], mixture.candidates([strong, weak]));
  t.ok((scores.get(1) ?? 0) > (scores.get(2) ?? 0));
  t.end();
});

t.test('lets the strongest write what the weakest does not know', async (t) => {
  const end = [0.9, 0.02, 0.02, 0.02, 0.02, 0.02];
  const cast = minds({
    ada: (written) => (written.length > 0 ? end : [0.01, 0.5, 0.45, 0.02, 0.01, 0.01]),
    bob: (written) => (written.length > 0 ? end : [0.01, 0.8, 0.1, 0.05, 0.02, 0.02]),
  });
  const { outcome } = await run(logitContrast, cast, { lambda: 0.5 });
  t.equal(outcome.answer, 'b');
  const none = await run(logitContrast, minds({ ada: PEAKED['ada']!, bob: PEAKED['bob']! }), { lambda: 0 });
  t.equal(none.outcome.answer, 'a');
});
