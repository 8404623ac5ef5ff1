import { readFileSync } from 'node:fs';
import t from 'tap';
import type { Answer } from '../../src/contract/call.ts';
import type { Outcome } from '../../src/contract/outcome.ts';
import type { RolloutStatus, TrajectoryGroup, Turn } from '../../src/contract/trajectory.ts';
import { statusOf } from '../../src/policy/blame.ts';
import { groupProblems } from '../../src/policy/group-check.ts';
import type { RolloutRun } from '../../src/policy/groups.ts';
import { OBJECTIVES, objectiveAt, planFor } from '../../src/policy/objectives.ts';
import { Downstream, turnsOf, type Heard } from '../../src/policy/turns.ts';
import {
  absenceOf,
  answerOf,
  callOf,
  madeGroup,
  outcomeOf,
  PARTS,
  PLAN,
  POLICY,
  policyHeard,
  recordOf,
  rewardOf,
  runOf,
  TOKENS,
} from '../support/trajectories.ts';

const own = (result: Heard['result'], more: Partial<Heard> = {}): Heard => ({
  call: callOf('ada', 'answer/ada'),
  result,
  ...more,
});
const partner = (result: Heard['result'], reads: readonly string[] = []): Heard => ({
  call: callOf('bob', 'fuse/bob', { reads }),
  result,
});
const fine = own(answerOf(TOKENS));
const failed = { status: 'failed', answer: null, errorCode: 'members_failed' } as const;
const late = { status: 'timeout', answer: null, errorCode: 'deadline' } as const;
const reading = ['answer/ada'];

void t.test('whose failure it was decides whether a rollout counts', async (t) => {
  const cases: [string, RolloutStatus, readonly Heard[], Partial<Outcome>?, (number | null)?][] = [
    ['all went well', 'ok', [fine, partner(answerOf())]],
    // Of others: dropped.
    ['nobody could grade it', 'invalid', [fine], {}, null],
    ['we stopped it', 'invalid', [fine], { status: 'cancelled' }],
    [
      'we stopped it when it had said nothing',
      'invalid',
      [own(absenceOf('upstream_empty'))],
      { status: 'cancelled' },
    ],
    ['a partner is down', 'invalid', [fine, partner(absenceOf('upstream_unreachable'))]],
    [
      'a partner sheds load',
      'invalid',
      [fine, partner(absenceOf('upstream_status', 'failed', 429), reading)],
    ],
    ['a partner is slow', 'invalid', [fine, partner(absenceOf('upstream_timeout', 'timeout'))]],
    ['a partner breaks off', 'invalid', [fine, partner(absenceOf('upstream_truncated'), reading)]],
    ['the policy’s server is down', 'invalid', [own(absenceOf('upstream_unreachable'))], failed],
    [
      'its server refuses a prompt of others',
      'invalid',
      [own(absenceOf('upstream_status', 'failed', 400))],
      failed,
    ],
    [
      'a partner refuses a prompt of others',
      'invalid',
      [partner(absenceOf('upstream_status', 'failed', 400)), fine],
    ],
    ['nobody is to blame', 'invalid', [fine], { status: 'failed', answer: null, errorCode: 'internal' }],
    // Its own: graded.
    ['it was cut', 'truncated', [own(answerOf(TOKENS, { finishReason: 'length' }))]],
    ['it said nothing', 'failed', [own(absenceOf('upstream_empty'))], failed, 0],
    [
      'it ran on and on',
      'timeout',
      [own(absenceOf('upstream_timeout', 'timeout'))],
      { ...late, errorCode: 'upstream_timeout' },
      0,
    ],
    [
      'its text was too long for a partner',
      'failed',
      [fine, partner(absenceOf('upstream_status', 'failed', 400), reading)],
      failed,
      0,
    ],
    [
      'and others answered in spite of it',
      'ok',
      [fine, partner(absenceOf('upstream_status', 'failed', 413), reading)],
    ],
    // Of nobody: it happened.
    ['a partner had nothing to say', 'ok', [fine, partner(absenceOf('upstream_empty'))]],
    ['a protocol needed a call no more', 'ok', [fine, partner(absenceOf('client_gone', 'cancelled'))]],
    ['a partner was cut', 'ok', [fine, partner(answerOf(undefined, { finishReason: 'length' }))]],
  ];
  for (const [name, status, heard, outcome, reward = 1] of cases) {
    t.equal(statusOf(outcomeOf(outcome), heard, rewardOf(reward), 'ada'), status, name);
  }
  t.equal(statusOf(outcomeOf(), [fine], undefined, 'ada'), 'invalid', 'no reward at all');
});

void t.test('a deadline and a budget are the policy’s own when it used the most', async (t) => {
  const at = (policyMs: number, partnerMs: number) => [
    recordOf('ada', { endMs: policyMs }),
    recordOf('bob', { endMs: partnerMs / 2 }),
    recordOf('bob', { startMs: partnerMs / 2, endMs: partnerMs }),
    recordOf('cyd', { endMs: 50 }),
  ];
  const pending = partner(absenceOf('deadline', 'timeout'), reading);
  const slow = (calls: Outcome['calls']) =>
    statusOf(outcomeOf({ ...late, calls }), [fine, pending], rewardOf(0), 'ada');
  t.equal(slow(at(60, 60)), 'timeout');
  t.equal(slow(at(55, 60)), 'invalid');
  t.equal(slow([recordOf('bob')]), 'invalid', 'a policy that was never asked took no time');
  const spent = (policyMicros: number) => {
    const calls = [
      recordOf('ada', { costMicros: policyMicros }),
      recordOf('bob', { costMicros: 7 }),
      recordOf('cyd', { status: 'refused', errorCode: 'budget_spent' }),
    ];
    const heard = [fine, partner(absenceOf('budget_spent', 'refused'), reading)];
    return statusOf(outcomeOf({ ...failed, calls }), heard, rewardOf(0), 'ada');
  };
  t.equal(spent(8), 'failed');
  t.equal(spent(6), 'invalid');
});

void t.test('a group holds rewards, advantages and turns, and is accepted', async (t) => {
  const reads = callOf('bob', 'fuse/bob', {
    reads: ['answer/ada'],
    member: { ...callOf('bob', '').member, model: 'b-1' },
  });
  const heard = [policyHeard(), { call: reads, result: answerOf() }];
  const runs = [
    runOf(1, { heard }),
    runOf(0),
    runOf(0, { outcome: outcomeOf({ status: 'cancelled' }) }),
    runOf(1),
  ];
  const group = madeGroup(runs, { advantage: 'rloo' });
  t.same(groupProblems(group), []);
  t.match(group, {
    schema: 'crl.trajectory-group/1',
    createdAt: '2026-11-01T12:00:00.000Z',
    groupSize: 4,
    protocol: { name: 'vote', version: 1, revision: PLAN.protocolRevision },
    policy: POLICY,
    baseline: { kind: 'rloo', mean: 2 / 3, valid: 3 },
    filter: { accepted: true, reasons: [] },
    tenant: 'tests',
    system: 'test',
    simulated: false,
  });
  t.same(
    group.rollouts.map(({ status, reward }) => [status, reward]),
    [
      ['ok', 1],
      ['ok', 0],
      ['invalid', null],
      ['ok', 1],
    ],
  );
  t.equal(group.rollouts[2]!.advantage, null);
  t.ok(Math.abs(group.rollouts[0]!.advantage! - 0.5) < 1e-12, 'over the others that are valid');
  const [first, second] = group.rollouts[0]!.turns;
  t.same(first, {
    turnIndex: 0,
    parentTurns: [],
    slot: 'answer/ada',
    agentRole: 'answer',
    model: 'ada',
    isPolicy: true,
    trainable: true,
    policyVersion: 3,
    promptTokenIds: [5, 6, 7],
    responseTokenIds: [8, 9],
    responseLogprobs: [-0.4, -1.1],
    logprobsMode: 'raw',
    sampling: { temperature: 1, topP: 1, maxTokens: 64, constrained: false },
    finishReason: 'stop',
    textSha256: PARTS.sha256('sixteen'),
    usage: { inputTokens: 3, outputTokens: 2 },
  });
  t.match(second, { turnIndex: 1, parentTurns: [0], model: 'b-1', isPolicy: false, trainable: false });
  t.notOk('responseTokenIds' in second!, 'words of others are context only');
});

void t.test('an answer that was cut earns nothing, unless its grade is to count', async (t) => {
  const heard = [own(answerOf(TOKENS, { finishReason: 'length' }))];
  const runs = [runOf(1, { heard }), runOf(1)];
  t.same(
    madeGroup(runs).rollouts.map(({ reward }) => reward),
    [0, 1],
  );
  t.same(
    madeGroup(runs, { overLength: 'graded' }).rollouts.map(({ reward }) => reward),
    [1, 1],
  );
});

void t.test('an empty answer is trained on for what was sampled', async (t) => {
  const heard = [
    own(absenceOf('upstream_empty'), { empty: answerOf({ ...TOKENS, ids: [2], logprobs: [-3] }) }),
  ];
  const group = madeGroup([runOf(0, { heard, outcome: outcomeOf(failed) }), runOf(1)]);
  t.match(group.rollouts[0], {
    status: 'failed',
    reward: 0,
    turns: [{ trainable: true, responseTokenIds: [2] }],
  });
  t.ok(group.filter.accepted);
});

void t.test('a policy that was not asked has a part in the mean', async (t) => {
  const group = madeGroup([runOf(1), runOf(0, { heard: [partner(answerOf())] })]);
  t.ok(group.filter.accepted);
  t.same(
    group.rollouts.map(({ advantage }) => advantage),
    [0.5, -0.5],
  );
});

void t.test('a group is not trained on for a reason', async (t) => {
  const withAnswer = (more: Partial<Answer>) => [
    runOf(1, { heard: [own(answerOf(TOKENS, more))] }),
    runOf(0),
  ];
  const withCall = (more: Parameters<typeof callOf>[2]) => [
    runOf(1, { heard: [{ call: callOf('ada', 'answer/ada', more), result: answerOf(TOKENS) }] }),
    runOf(0),
  ];
  const outage = () => runOf(null);
  const logprobs = (...values: unknown[]) => ({ logprobs: values.map((logprob) => ({ logprob })) });
  const cases: [string, readonly RolloutRun[]][] = [
    ['too-few-valid', [runOf(1), outage()]],
    ['too-few-valid', [runOf(1), runOf(0), outage(), outage(), outage()]],
    ['rewards-equal', [runOf(1), runOf(1)]],
    ['mixed-policy-versions', [runOf(1), runOf(0, { policyVersion: 4 })]],
    ['no-policy-tokens', [runOf(1, { heard: [partner(answerOf())] }), runOf(0, { heard: [] })]],
    ['missing-token-ids', withAnswer({ tokenIds: [] })],
    ['missing-token-ids', withAnswer({ promptTokenIds: [] })],
    ['missing-logprobs', withAnswer({ logprobs: [] })],
    ['length-mismatch', withAnswer(logprobs(-1))],
    ['length-mismatch', withAnswer(logprobs(-1, -1, -1))],
    ['not-finite', withAnswer(logprobs(-1, -Infinity))],
    ['not-finite', withAnswer(logprobs(-1, null))],
    ['not-finite', withAnswer({ logprobs: [{ logprob: -1 }, 'x'] })],
    ['implausible-logprobs', withAnswer(logprobs(-1, -9999))],
    ['implausible-logprobs', withAnswer(logprobs(-1, 0.002))],
    ['temperature', withCall({ sampling: { temperature: 0.7, top_p: 1 } })],
    ['temperature', withCall({ sampling: { temperature: 1, top_p: 0.9 } })],
    ['temperature', withCall({ sampling: { temperature: 1, top_p: 1, presence_penalty: 0.1 } })],
    ['temperature', withCall({ sampling: {} })],
    ['constrained', withCall({ responseFormat: { type: 'json_object' } })],
  ];
  for (const [reason, runs] of cases) {
    const group = madeGroup(runs);
    t.same(group.filter, { accepted: false, reasons: [reason] }, reason);
    t.same(groupProblems(group), [], `${reason}: complete all the same`);
    t.same(groupProblems(JSON.parse(JSON.stringify(group))), []);
  }
  const docs = readFileSync(new URL('../../docs/training.md', import.meta.url), 'utf8');
  const listed = /### Reasons to leave a group out\n([^#]*)/
    .exec(docs)![1]!
    .matchAll(/`([a-z]+(?:-[a-z]+)*)`(?=.*\|.*\|)/g);
  t.same(
    new Set([...listed].map(([, reason]) => reason)),
    new Set(cases.map(([reason]) => reason)),
    'the docs list them',
  );
  t.ok(madeGroup([runOf(1), runOf(0), outage(), outage()]).filter.accepted, 'half of a group is enough');
  t.ok(madeGroup(withAnswer(logprobs(-1, 0.0005))).filter.accepted, 'rounding may lift a log-prob above 0');
  const spoilt = runOf(null, { heard: [own(answerOf(TOKENS, { logprobs: [] }))] });
  t.ok(madeGroup([runOf(1), runOf(0), spoilt]).filter.accepted, 'an invalid rollout spoils nothing');
});

void t.test('turns know what they read, every sample of a slot', async (t) => {
  const heard = [
    policyHeard(TOKENS, { slot: 'draft/ada' }),
    policyHeard(TOKENS, { slot: 'draft/ada', sample: 1 }),
    { call: callOf('bob', 'fuse/bob', { reads: ['draft/ada', 'elsewhere'] }), result: answerOf() },
  ];
  const context = { policy: 'ada', policyVersion: 3, logprobsMode: 'raw' as const, sha256: PARTS.sha256 };
  t.same(
    turnsOf(heard, context).turns.map(({ parentTurns }) => parentTurns),
    [[], [], [0, 1]],
  );
});

void t.test('whoever reads somebody who read the policy is downstream of it', async (t) => {
  const downstream = new Downstream('ada');
  const calls = [
    callOf('bob', 'first/bob'),
    callOf('ada', 'first/ada'),
    callOf('bob', 'second/bob', { reads: ['first/ada'] }),
    callOf('cyd', 'second/cyd', { reads: ['first/bob'] }),
    callOf('cyd', 'third/cyd', { reads: ['second/bob'] }),
  ];
  t.same(
    calls.map((call) => downstream.add(call)),
    [false, true, true, false, true],
  );
  t.notOk(downstream.reads(calls[1]!), 'its own first prompt has none of its words');
});

void t.test('every broken invariant is told in words', async (t) => {
  const good = () => structuredClone(madeGroup([runOf(1), runOf(0), runOf(null)]));
  const withTurn = (change: (turn: Turn) => void) => (group: TrajectoryGroup) =>
    change(group.rollouts[0]!.turns[0]!);
  const cases: [RegExp, (group: TrajectoryGroup) => void][] = [
    [/^\/schema must/, (group) => Object.assign(group, { schema: 'other' })],
    [/^2 rollouts in a group of 3$/, (group) => group.rollouts.pop()],
    [/^rollout 1 has index 0$/, (group) => (group.rollouts[1]!.index = 0)],
    [/same rolloutId/, (group) => (group.rollouts[1]!.rolloutId = group.rollouts[0]!.rolloutId)],
    [/^rollout 2 is invalid with reward 0$/, (group) => (group.rollouts[2]!.reward = 0)],
    [/^rollout 2 is invalid with advantage 0$/, (group) => (group.rollouts[2]!.advantage = 0)],
    [/^rollout 0 is ok with advantage null$/, (group) => (group.rollouts[0]!.advantage = null)],
    [/^baseline\.mean is 0\.6; the rewards give 0\.5$/, (group) => (group.baseline.mean = 0.6)],
    [/^baseline\.valid is 3/, (group) => (group.baseline.valid = 3)],
    [
      /^rollout 0 has advantage 0\.4; its reward gives 0\.5 \(centred\)$/,
      (group) => (group.rollouts[0]!.advantage = 0.4),
    ],
    [/turn 0: turnIndex is 1$/, withTurn((turn) => (turn.turnIndex = 1))],
    [/reads turn 0, which comes later$/, withTurn((turn) => turn.parentTurns.push(0))],
    [/trainable and not the policy’s$/, withTurn((turn) => (turn.isPolicy = false))],
    [/trainable without token ids and log-probs$/, withTurn((turn) => delete turn.responseLogprobs)],
    [/sampled by version 2 of the policy, the group by 3$/, withTurn((turn) => (turn.policyVersion = 2))],
    [
      /has no response$/,
      withTurn((turn) => Object.assign(turn, { responseTokenIds: [], responseLogprobs: [] })),
    ],
    [
      /^rollout 0, turn 0: has 2 token ids and 1 log-probs$/,
      withTurn((turn) => turn.responseLogprobs!.pop()),
    ],
    [/has token id 40 in a vocabulary of 40$/, withTurn((turn) => (turn.responseTokenIds![1] = 40))],
    [/has token id 41 in a vocabulary of 40$/, withTurn((turn) => (turn.promptTokenIds![0] = 41))],
    [/has log-prob 0\.1$/, withTurn((turn) => (turn.responseLogprobs![0] = 0.1))],
    [/has log-prob -9999$/, withTurn((turn) => (turn.responseLogprobs![0] = -9999))],
    [/temperature 0\.5, top_p 1$/, withTurn((turn) => (turn.sampling.temperature = 0.5))],
    [/decoded under a constraint$/, withTurn((turn) => (turn.sampling.constrained = true))],
    [/not accepted and gives no reason$/, (group) => (group.filter.accepted = false)],
    [/accepted in spite of rewards-equal$/, (group) => group.filter.reasons.push('rewards-equal')],
    [/nothing to train on$/, (group) => group.rollouts.forEach(({ turns }) => (turns[0]!.trainable = false))],
  ];
  t.same(groupProblems(good(), 40), []);
  for (const [problem, spoil] of cases) {
    const group = good();
    spoil(group);
    const problems = groupProblems(group, 40);
    t.ok(
      problems.some((one) => problem.test(one)),
      `${problem.source}: ${problems.join(' | ')}`,
    );
  }
  const alike = { ...madeGroup([runOf(1), runOf(1)]), filter: { accepted: true, reasons: [] } };
  t.match(groupProblems(alike), [/no advantage but zero/]);
  const few = { ...madeGroup([runOf(1), runOf(null)]), filter: { accepted: true, reasons: [] } };
  t.match(groupProblems(few), [/with 1 valid rollouts; 2 are needed/]);
  t.not(groupProblems(null).length, 0);
});

void t.test('objectives say who runs and what is rewarded, and never leave the policy out', async (t) => {
  const ran = (['team', 'self', 'solo'] as const).map((objective) => {
    const { members, mask } = planFor(objective, PLAN, 'bob');
    return [objective, members.map(({ alias }) => alias).join(), mask, OBJECTIVES[objective].rewarded];
  });
  t.same(ran, [
    ['team', 'ada,bob,cyd', 7, 'system'],
    ['self', 'ada,bob,cyd', 7, 'own'],
    ['solo', 'bob', 2, 'system'],
  ]);
  // A team that is itself not the whole pool: bob is the pool's third, the mask's second.
  t.equal(
    planFor('solo', { ...PLAN, members: PLAN.members.slice(0, 2), mask: 0b10100 }, 'bob').mask,
    0b10000,
  );
  for (const objective of ['team', 'self', 'solo'] as const) {
    t.throws(() => planFor(objective, PLAN, 'eve'), { code: 'coalition_invalid' });
  }
  t.same(
    [0, 1, 2, 3].map((index) => objectiveAt('mix', index)),
    ['team', 'solo', 'team', 'solo'],
  );
  t.equal(objectiveAt('self', 1), 'self');
});
