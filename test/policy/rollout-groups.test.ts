import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import type { Answer, Call } from '../../src/contract/call.ts';
import type { RunOptions, RunSystem } from '../../src/contract/capabilities.ts';
import type { Outcome } from '../../src/contract/outcome.ts';
import type { Plan } from '../../src/contract/plan.ts';
import type { Objective, TrajectoryGroup } from '../../src/contract/trajectory.ts';
import { createRunSystem } from '../../src/gateway/engine/run.ts';
import { protocols } from '../../src/gateway/protocols/index.ts';
import type { Options } from '../../src/gateway/protocols/protocol.ts';
import { groupProblems } from '../../src/policy/group-check.ts';
import { collectGroup, drawAt, type GroupRequest } from '../../src/policy/rollout-groups.ts';
import { judge } from '../../src/scoring/judge.ts';
import { verifiers } from '../../src/scoring/rewards/index.ts';
import { Cast, planOf, TASK, USAGE, type Act, type Seen } from '../support/cast.ts';

const POLICY = { alias: 'bob', baseModel: 'tiny/bob', adapter: 'bob-v000003', version: 3 };

/** What the policy gives besides its words. */
const TOKENS: Partial<Answer> = {
  promptTokenIds: [1, 2, 3],
  tokenIds: [4, 5],
  logprobs: [{ logprob: -0.5 }, { logprob: -1.5 }],
};

/** bob is the policy and right in every other rollout; ada and cyd are right and wrong. */
function script(call: Call, seen: readonly Seen[]): Act {
  const { alias } = call.member;
  const before = seen.filter((one) => one.call.member.alias === alias).length;
  if (alias === 'bob') return { words: [before % 2 ? 'Answer: 16' : 'Answer: 8'], more: TOKENS };
  return { words: [alias === 'ada' ? 'Answer: 16' : 'Answer: 6'] };
}

interface Collected {
  readonly group: TrajectoryGroup;
  readonly cast: Cast;
  readonly plans: readonly Plan[];
  readonly options: readonly RunOptions[];
  readonly outcomes: readonly Outcome[];
}

async function collect(
  protocolName: string,
  options: Options,
  more: Partial<GroupRequest> & { plan?: Plan; signal?: AbortSignal; script?: typeof script } = {},
): Promise<Collected> {
  const protocol = protocols.find(({ name }) => name === protocolName)!;
  const cast = new Cast(more.script ?? script);
  const outcomes: Outcome[] = [];
  const keep = (outcome: Outcome) => {
    outcomes.push(outcome);
  };
  const clock = { now: () => 1_760_000_000_000, elapsed: () => performance.now() };
  let ids = 0;
  const newId = () => `id-${ids++}`;
  const engine = createRunSystem({
    protocols,
    send: cast.send,
    clock,
    newId,
    secret: 'a secret',
    onOutcome: keep,
  });
  const plans: Plan[] = [];
  const used: RunOptions[] = [];
  const run: RunSystem = (plan, task, options) => {
    plans.push(plan);
    used.push(options);
    return engine(plan, task, options);
  };
  const { signal = new AbortController().signal, script: _script, ...request } = more;
  const group = await collectGroup(
    {
      plan: planOf(protocol, options, [0, 1, 2]),
      task: { ...TASK, gold: '16', verifier: 'numeric' },
      taskId: 'spiders',
      objective: 'team',
      policy: POLICY,
      groupSize: 8,
      advantage: 'rloo',
      visit: 0,
      ...request,
    },
    { run, grade: (outcome) => judge(outcome, verifiers, 0), clock, newId, signal },
  );
  return { group, cast, plans, options: used, outcomes };
}

/** How often each slot was really asked. */
function counts({ cast }: Collected): Record<string, number> {
  return Object.fromEntries(
    [...Map.groupBy(cast.slots(), (slot) => slot)].map(([slot, all]) => [slot, all.length]),
  );
}

const ascending = (a: number | null, b: number | null) => Number(a) - Number(b);

const TIES = { ties: 'priority' };

void t.test(
  'what has nothing to do with the policy runs once a group, everything else in every rollout',
  async (t) => {
    t.same(counts(await collect('vote', { samples: 1, ...TIES })), {
      'answer/ada': 1,
      'answer/bob': 8,
      'answer/cyd': 1,
    });
    t.same(counts(await collect('vote', { samples: 2, ...TIES })), {
      'answer/ada': 1,
      'answer/ada/1': 1,
      'answer/bob': 8,
      'answer/bob/1': 8,
      'answer/cyd': 1,
      'answer/cyd/1': 1,
    });
    t.same(counts(await collect('debate', { rounds: 2, ...TIES })), {
      'round-1/ada': 1,
      'round-1/bob': 8,
      'round-1/cyd': 1,
      'round-2/ada': 8,
      'round-2/bob': 8,
      'round-2/cyd': 8,
    });
    t.same(counts(await collect('fuse', { fusers: ['ada'], fuserDrafts: true })), {
      'draft/ada': 1,
      'draft/bob': 8,
      'draft/cyd': 1,
      'fuse/ada': 8,
    });
    t.same(counts(await collect('fuse', { fusers: ['bob'], fuserDrafts: false })), {
      'draft/ada': 1,
      'draft/cyd': 1,
      'fuse/bob': 8,
    });
  },
);

void t.test(
  'nothing is fresh by name alone: two rollouts in which the policy says the same share no answer to it',
  async (t) => {
    const same = (call: Call): Act => ({
      words: ['Answer: 16'],
      ...(call.member.alias === 'bob' && { more: TOKENS }),
    });
    const collected = await collect('debate', { rounds: 2, ...TIES }, { script: same });
    t.equal(counts(collected)['round-2/ada'], 8);
    t.match(collected.group.filter.reasons, ['rewards-equal']);
  },
);

void t.test('the policy asked the same twice answers twice', async (t) => {
  // All say in every round what they said before, so the prompts of rounds 2 and 3 are the same.
  const stubborn = (call: Call): Act => ({
    words: [call.member.alias === 'ada' ? 'Answer: 16' : 'Answer: 8'],
    ...(call.member.alias === 'bob' && { more: TOKENS }),
  });
  const debate = protocols.find(({ name }) => name === 'debate')!;
  const plan = planOf(debate, { rounds: 3, ...TIES }, [0, 1]);
  const collected = await collect('debate', {}, { plan, script: stubborn });
  const prompts = collected.cast.seen.filter(({ call }) => /^round-[23].bob/.test(call.slot));
  t.equal(new Set(prompts.map(({ call }) => JSON.stringify(call.messages))).size, 1);
  t.equal(prompts.length, 16);
});

void t.test('a call between partners that never read the policy is shared, whatever its depth', async (t) => {
  // bob leaves the debate with its first failure to say anything; the others go on without a word of it.
  const mute = (call: Call, seen: readonly Seen[]): Act =>
    call.member.alias === 'bob' ? { fail: 'upstream_unreachable' } : script(call, seen);
  const collected = await collect('debate', { rounds: 3, ...TIES }, { script: mute });
  t.same(counts(collected), {
    'round-1/ada': 1,
    'round-1/bob': 8,
    'round-1/cyd': 1,
    'round-2/ada': 1,
    'round-2/cyd': 1,
    'round-3/ada': 1,
    'round-3/cyd': 1,
  });
  t.same(collected.group.filter.reasons, ['too-few-valid']);
});

void t.test(
  'the policy is sampled freely and its tokens are wanted; partners are asked as in serving',
  async (t) => {
    const task = {
      ...TASK,
      sampling: {
        temperature: 0.2,
        top_p: 0.9,
        presence_penalty: 1,
        max_completion_tokens: 99,
        stop: ['END'],
      },
      responseFormat: { type: 'json_object' },
      gold: '16',
      verifier: 'numeric',
    };
    const { cast, group } = await collect('debate', { rounds: 2, ...TIES }, { task, maxTokens: 512 });
    for (const { call, stream } of cast.seen) {
      t.notOk(stream);
      if (call.member.alias !== 'bob') {
        t.match(call, { sampling: task.sampling, responseFormat: task.responseFormat });
        t.equal(call.wants, undefined);
        continue;
      }
      t.same(call.wants, { tokenIds: true, logprobs: true });
      t.equal(call.responseFormat, undefined, 'constrained tokens cannot be trained on');
      t.same(call.sampling, {
        temperature: 1,
        top_p: 1,
        presence_penalty: 0,
        frequency_penalty: 0,
        max_tokens: 512,
        stop: ['END'],
      });
    }
    const turns = group.rollouts.flatMap((rollout) => rollout.turns);
    t.equal(turns.filter(({ trainable }) => trainable).length, 16);
    t.ok(turns.every(({ isPolicy, trainable }) => isPolicy === trainable));
    t.same(
      group.rollouts[0]!.turns.map(({ slot, parentTurns }) => [slot, parentTurns]),
      [
        ['round-1/ada', []],
        ['round-1/bob', []],
        ['round-1/cyd', []],
        ['round-2/ada', [0, 1, 2]],
        ['round-2/bob', [0, 1, 2]],
        ['round-2/cyd', [0, 1, 2]],
      ],
    );
  },
);

void t.test('a seeded plan gives every fresh call a seed of its own, and shared ones the same', async (t) => {
  const protocol = protocols.find(({ name }) => name === 'debate')!;
  const plan = planOf(protocol, { rounds: 2, ...TIES }, [0, 1, 2], { seed: '7' });
  const { cast } = await collect('debate', {}, { plan });
  const seeds = (slot: string) =>
    cast.seen.filter(({ call }) => call.slot === slot).map(({ call }) => call.sampling.seed);
  t.equal(new Set(seeds('round-1/bob')).size, 8);
  t.equal(new Set(seeds('round-2/ada')).size, 8);
  const again = await collect('debate', {}, { plan, visit: 1 });
  t.same(
    [...new Set(again.plans.map(({ replicate }) => replicate))],
    [1],
    'with marks and orders of its own',
  );
  const first = new Set(cast.seen.map(({ call }) => call.sampling.seed));
  t.notOk(
    again.cast.seen.some(({ call }) => first.has(call.sampling.seed)),
    'another visit draws anew, shared calls too',
  );
});

void t.test('no two draws have the same number', async (t) => {
  const numbers = [0, 1, 2].flatMap((visit) =>
    [undefined, 0, 1, 2, 3].flatMap((rollout) =>
      [0, 4095].map((draw) => drawAt({ visit, groupSize: 4 }, rollout, draw)),
    ),
  );
  t.equal(new Set(numbers).size, 30);
  t.equal(drawAt({ visit: 0, groupSize: 4 }, undefined, 5), 5, 'as in serving');
  t.throws(() => drawAt({ visit: 0, groupSize: 4 }, 0, 4096), RangeError);
});

void t.test('the policy is in every run', async (t) => {
  for (const [name, options] of [
    ['vote', { samples: 1, ...TIES }],
    ['debate', { rounds: 2, ...TIES }],
    ['fuse', { fusers: [], fuserDrafts: true }],
    ['single', {}],
  ] as const) {
    for (const objective of ['team', 'self', 'solo'] as const) {
      const { plans, group } = await collect(name, options, { objective });
      t.equal(plans.length, 8);
      t.ok(plans.every(({ members }) => members.some(({ alias }) => alias === 'bob')));
      t.ok(plans.every(({ members }) => members.length === (objective === 'solo' ? 1 : 3)));
      t.equal(new Set(plans.map(({ id }) => id)).size, 8);
      t.same(groupProblems(group), [], `${name} ${objective}`);
    }
  }
  const protocol = protocols[0]!;
  const without = planOf(protocol, {}, [0, 2]);
  for (const objective of ['team', 'self', 'solo'] as const) {
    await t.rejects(collect(protocol.name, {}, { plan: without, objective }), { code: 'coalition_invalid' });
  }
  await t.rejects(collect('vote', { samples: 1, ...TIES }, { groupSize: 1 }), RangeError);
});

void t.test('each objective rewards what it says', async (t) => {
  const rewards = async (objective: Objective, name: string, options: Options) =>
    (await collect(name, options, { objective, groupSize: 4 })).group.rollouts.map(({ reward }) => reward);
  // ada is right and speaks last, whatever bob drafted.
  const fuse = { fusers: ['ada'], fuserDrafts: true };
  t.same(await rewards('team', 'fuse', fuse), [1, 1, 1, 1]);
  t.same((await rewards('self', 'fuse', fuse)).toSorted(ascending), [0, 0, 1, 1]);
  t.same((await rewards('solo', 'fuse', fuse)).toSorted(ascending), [0, 0, 1, 1]);
  // ada right, cyd wrong, bob decides: with 8 there is no majority and ada's answer stands.
  t.same(await rewards('team', 'vote', { samples: 1, ...TIES }), [1, 1, 1, 1]);
  const { group } = await collect('vote', { samples: 1, ...TIES }, { objective: 'self', groupSize: 4 });
  t.match(group, { objective: 'self', filter: { accepted: true }, baseline: { mean: 0.5 } });
  t.equal(group.rollouts[0]!.rewardSource, 'verifier:numeric@1');
  const mute = (call: Call, seen: readonly Seen[]): Act =>
    call.member.alias === 'bob' ? { words: [' '], more: TOKENS } : script(call, seen);
  const silent = await collect(
    'vote',
    { samples: 1, ...TIES },
    { objective: 'self', groupSize: 4, script: mute },
  );
  t.same(
    silent.group.rollouts.map(({ reward }) => reward),
    [0, 0, 0, 0],
    'no own answer earns nothing',
  );
  t.ok(silent.group.rollouts[0]!.turns[1]!.trainable, 'and its tokens are known');
});

void t.test('an outage of a partner drops rollouts, a failure of the policy is graded', async (t) => {
  const down = (call: Call, seen: readonly Seen[]): Act =>
    call.member.alias === 'cyd' ? { fail: 'upstream_unreachable' } : script(call, seen);
  const { group } = await collect('vote', { samples: 1, ...TIES }, { script: down });
  t.same(group.filter.reasons, ['too-few-valid']);
  t.ok(group.rollouts.every(({ status, reward }) => status === 'invalid' && reward === null));
  const cut = (call: Call, seen: readonly Seen[]): Act => {
    const act = script(call, seen);
    return call.member.alias === 'bob' && seen.length % 2
      ? { ...act, more: { ...TOKENS, finishReason: 'length' } }
      : act;
  };
  const truncated = await collect('vote', { samples: 1, ...TIES }, { script: cut });
  t.match(truncated.group.filter, { accepted: true });
  t.same(
    [...new Set(truncated.group.rollouts.map(({ status, reward }) => `${status} ${reward}`))].toSorted(),
    ['ok 1', 'truncated 0'],
  );
});

void t.test('a group that is stopped has no valid rollout and no loose end', async (t) => {
  const control = new AbortController();
  const hanging = (call: Call): Act => ({ hang: 'polite', words: [call.slot] });
  const collecting = collect('debate', { rounds: 2, ...TIES }, { signal: control.signal, script: hanging });
  await sleep(5);
  control.abort();
  const { group, cast } = await collecting;
  t.match(group.filter, { accepted: false, reasons: ['too-few-valid'] });
  t.ok(cast.seen.every(({ end }) => end < Infinity));
});

void t.test('shared calls cost once, and tokens are no part of an outcome', async (t) => {
  const { outcomes } = await collect('vote', { samples: 1, ...TIES });
  const calls = outcomes.flatMap((outcome) => outcome.calls);
  t.equal(calls.length, 24);
  t.equal(calls.filter(({ reused }) => !reused).length, 10);
  t.equal(
    outcomes.reduce((sum, { usage }) => sum + usage.outputTokens, 0),
    10 * USAGE.outputTokens,
  );
  t.notMatch(JSON.stringify(outcomes), /tokenIds|logprob/i);
});
