import t from 'tap';
import Value from 'typebox/value';
import type { Answer, Call } from '../../src/contract/call.ts';
import { ModelConfig } from '../../src/contract/config.ts';
import type { Capabilities, Member } from '../../src/contract/plan.ts';
import { memberOf } from '../../src/gateway/catalog.ts';
import { createRunSystem } from '../../src/gateway/engine/run.ts';
import { callKey } from '../../src/gateway/engine/reuse.ts';
import { Round, speak } from '../../src/gateway/protocols/ask-all.ts';
import { mostVoted } from '../../src/gateway/protocols/ballot.ts';
import {
  choose,
  chooseAll,
  decisionOf,
  labelCall,
  readLabel,
  type Decision,
} from '../../src/gateway/protocols/label-step.ts';
import { peersBlock, withUserText } from '../../src/gateway/protocols/peers.ts';
import { defineProtocol } from '../../src/gateway/protocols/protocol.ts';
import { plainCall } from '../../src/gateway/protocols/single.ts';
import { openaiCompatible } from '../../src/gateway/upstreams/openai-compatible.ts';
import { sim } from '../../src/gateway/upstreams/sim.ts';
import { collectGroup } from '../../src/policy/rollout-groups.ts';
import { judge } from '../../src/scoring/judge.ts';
import { verifiers } from '../../src/scoring/rewards/index.ts';
import { Cast, labelling, memberNamed, NAMES, performPlan, planOf, TASK, USAGE } from '../support/cast.ts';
import { obeying, said, startUpstream } from '../support/upstream.ts';
import Type from 'typebox';

const QUESTION = {
  slot: 'route/ada',
  purpose: 'route' as const,
  messages: TASK.messages,
  labels: ['A', 'B', 'none'],
};
const CALL = labelCall(TASK, memberNamed('ada'), QUESTION);
const WITH_PROBABILITIES: Call = { ...CALL, choose: { labels: QUESTION.labels, probabilities: true } };

const answer = (text: string, more: Partial<Answer> = {}): Answer => ({
  message: { text },
  finishReason: 'stop',
  usage: USAGE,
  from: ['ada'],
  ...more,
});

/** An entry of `choices[].logprobs.content`. */
const token = (text: string, top: Readonly<Record<string, number>>) => ({
  token: text,
  logprob: Math.log(top[text] ?? 0.01),
  top_logprobs: Object.entries(top).map(([other, p]) => ({ token: other, logprob: Math.log(p) })),
});

/** A router asks whom to ask; the one it names answers. A stand-in for every protocol with a label step. */
const route = defineProtocol<object>({
  name: 'route',
  version: 1,
  summary: 'test',
  source: 'test',
  options: Type.Object({}),
  streams: true,
  tools: false,
  reuse: 'A',
  symmetric: () => false,
  describe: () => ({ calls: 2, path: 2, widest: 1 }),
  async *run(task, team, _options, context) {
    const round = new Round();
    const labels = team.map((_member, index) => String(index + 1));
    const makeCall = (member: Member) =>
      labelCall(task, member, {
        slot: `route/${member.alias}`,
        purpose: 'route',
        messages: withUserText(task.messages, 'Who should answer?'),
        labels,
      });
    const { label, slot } = await choose(team, makeCall, '1', context, round);
    const chosen = team.filter((_member, index) => labels[index] === label);
    const reads = slot === undefined ? [] : [slot];
    const said = yield* speak(chosen, (member) => ({ ...plainCall(task, member), reads }), context, round);
    if (!said) throw round.failure();
    return said;
  },
});

void t.test('the whole answer is the label, or there is none', (t) => {
  const rows: [string, string, Decision['by']][] = [
    ['B', 'B', 'answer'],
    [' B\n', 'B', 'answer'],
    ['<think>A or B?</think>\nB', 'B', 'answer'],
    ['{"label":"B"}', 'B', 'answer'],
    ['{ "label" : "none" }\n', 'none', 'answer'],
    ['B.', 'none', 'fallback'],
    ['b', 'none', 'fallback'],
    ['I choose B', 'none', 'fallback'],
    ['A is wrong, so B', 'none', 'fallback'],
    ['{"label":"C"}', 'none', 'fallback'],
    ['{"label":"B","label":"A"}', 'none', 'fallback'],
    ['<think>B', 'none', 'fallback'],
    ['', 'none', 'fallback'],
  ];
  for (const [text, label, by] of rows) {
    t.same(readLabel(CALL, answer(text), 'none'), { label, by }, JSON.stringify(text));
  }
  t.end();
});

void t.test('a free step counts whole answers only', (t) => {
  const free: Call = { ...CALL, choose: { labels: QUESTION.labels, probabilities: true, free: true } };
  const logprobs = [token('B.', { 'B.': 0.9, A: 0.05 })];
  t.same(readLabel(free, answer(' B '), 'none'), { label: 'B', by: 'answer' });
  for (const text of ['B.', '{"label":"B"}'])
    t.same(readLabel(free, answer(text, { logprobs }), 'none'), { label: 'none', by: 'fallback' });
  t.end();
});

void t.test('probabilities are those of the token in which labels part, relative to each other', (t) => {
  const plain = readLabel(
    WITH_PROBABILITIES,
    answer('B', { logprobs: [token('B', { B: 0.6, A: 0.2, x: 0.2 })] }),
    'A',
  );
  t.match(plain, { label: 'B', by: 'answer' });
  t.same([...plain.probabilities!.keys()], ['A', 'B', 'none']);
  t.ok(Math.abs(plain.probabilities!.get('B')! - 0.75) < 1e-9);
  const fielded = readLabel(
    WITH_PROBABILITIES,
    answer('{"label":"A"}', {
      logprobs: [
        token('{"', { '{"': 1 }),
        token('label', { label: 1, B: 0.5 }),
        token('":"', { '":"': 1 }),
        token('A', { A: 0.5, no: 0.4, B: 0.1 }),
        token('"}', { '"}': 1 }),
      ],
    }),
    'none',
  );
  t.ok(Math.abs(fielded.probabilities!.get('none')! - 0.4) < 1e-9, 'a piece that only one label begins with');
  const merged = readLabel(
    WITH_PROBABILITIES,
    answer('{"label": "A"}', {
      logprobs: [token('{"label": ', {}), token('"A', { '"A': 0.75, '"B': 0.25, B: 0.9 }), token('"}', {})],
    }),
    'none',
  );
  t.ok(Math.abs(merged.probabilities!.get('A')! - 0.75) < 1e-9, 'a token may begin before the label');
  const prose = answer('Well, B', {
    logprobs: [token('Well', { Well: 0.8, A: 0.1, B: 0.05 }), token(',', {})],
  });
  t.match(readLabel(WITH_PROBABILITIES, prose, 'none'), { label: 'A', by: 'likelihood' });
  const blank = answer('hm', { logprobs: [token('hm', { hm: 1 })] });
  t.match(readLabel(WITH_PROBABILITIES, blank, 'none'), { label: 'none', by: 'fallback' });
  t.match(readLabel(WITH_PROBABILITIES, answer('B', { logprobs: [null] }), 'A').probabilities, undefined);
  t.end();
});

void t.test('a label step is asked coldly, briefly and without what binds the client’s answer', (t) => {
  const task = {
    ...TASK,
    sampling: { temperature: 1, top_p: 0.5, stop: ['X'], max_completion_tokens: 900 },
    responseFormat: { type: 'json_object' },
  };
  const call = labelCall(task, memberNamed('ada'), QUESTION);
  t.same(call.sampling, { temperature: 0, max_completion_tokens: 20 });
  t.equal(call.responseFormat, undefined);
  t.match(call.messages.at(-1)?.content, /legs[^]*exactly one of these and nothing else: A, B, none$/);
  const thinker = { ...memberNamed('ada'), capabilities: { reasoning: true } };
  t.same(labelCall(task, thinker, QUESTION).sampling, {}, 'who thinks first is left to it');
  for (const labels of [[], ['A'], ['A', 'A'], ['A', ''], ['A', ' B']])
    t.throws(() => labelCall(TASK, memberNamed('ada'), { ...QUESTION, labels }), RangeError);
  t.not(callKey(call, 0), callKey({ ...call, choose: { labels: ['A', 'B'], probabilities: false } }, 0));
  t.end();
});

void t.test('every kind of endpoint is held to the labels over HTTP', async (t) => {
  const upstream = await startUpstream();
  t.teardown(() => upstream.close());
  const ask = async (capabilities: Capabilities, more: Partial<Call> = {}) => {
    const document = { id: 'ours', provider: 'openai-compatible', baseUrl: upstream.url, capabilities };
    const config: unknown = Value.Default(ModelConfig, document);
    Value.Assert(ModelConfig, config);
    const opened = openaiCompatible.open(config);
    const call = { ...labelCall(TASK, memberOf(config), { ...QUESTION, probabilities: true }), ...more };
    const note = { attempts: 0, reused: false, lostUsage: { inputTokens: 0, outputTokens: 0 } };
    const { signal } = new AbortController();
    const result = await opened.send({ call, emit: () => undefined, signal, stream: false, note });
    await opened.close();
    return { decision: decisionOf(call, result, 'none'), body: upstream.received.at(-1)!.body };
  };
  upstream.play(obeying((labels) => labels[1]!, 'I would say B'));
  for (const choice of ['structured_outputs', 'guided_choice', 'json_schema'] as const) {
    const { decision, body } = await ask({ choice, logprobs: 50 });
    t.match(decision, { label: 'B', by: 'answer', slot: 'route/ada', member: { alias: 'ours' } }, choice);
    t.match(body, { logprobs: true, top_logprobs: 20, temperature: 0 });
  }
  const loose = await ask({ logprobs: 3 }, { choose: { labels: QUESTION.labels, probabilities: false } });
  t.match(loose.body, { logprobs: true, top_logprobs: 3 }, 'without a constraint the likeliest label counts');
  const held = await ask(
    { logprobs: 3, choice: 'guided_choice' },
    { choose: { labels: QUESTION.labels, probabilities: false } },
  );
  t.equal(held.body['logprobs'], undefined);
  const bare = await ask({});
  t.match(bare.decision, { label: 'none', by: 'fallback' });
  t.equal(bare.body['logprobs'], undefined, 'nothing is asked for that the endpoint may not know');
  upstream.play(() => said('B'));
  const labelTokens = { A: 5, B: 6, none: 7 };
  const biased = await ask({ labelTokens });
  t.match(biased.body, { logit_bias: { 5: 100, 6: 100, 7: 100 }, max_tokens: 1 });
  const partly = await ask({ labelTokens: { A: 5, B: 6 } });
  t.equal(partly.body['logit_bias'], undefined, 'a bias that leaves out a label would exclude it');
  const free = await ask(
    { choice: 'structured_outputs', logprobs: 5 },
    { choose: { labels: QUESTION.labels, probabilities: true, free: true } },
  );
  t.equal(free.body['structured_outputs'], undefined);
});

void t.test('a role passes on when its holder fails, never because of what it says', async (t) => {
  const down = new Cast(
    labelling(
      (call) => (call.member.alias === 'ada' ? { fail: 'upstream_status' } : { words: ['x'] }),
      () => '3',
    ),
  );
  const refilled = await performPlan(route, down, planOf(route, {}, [0, 1, 2]));
  t.same(down.slots(), ['route/ada', 'route/bob', 'answer/cyd']);
  t.match(refilled.outcome, { status: 'ok', answerFrom: ['cyd'] });
  const babbling = new Cast(
    labelling(
      () => ({ words: ['x'] }),
      () => 'I think number 3 is best',
    ),
  );
  await performPlan(route, babbling, planOf(route, {}, [0, 1, 2]));
  t.same(babbling.slots(), ['route/ada', 'answer/ada'], 'prose gives the fallback');
  const dead = new Cast((call) => (call.choose ? { fail: 'upstream_status' } : { words: ['x'] }));
  const { outcome } = await performPlan(route, dead, planOf(route, {}, [0, 1]));
  t.match(outcome, { status: 'ok', answerFrom: ['ada'] });
});

void t.test('a panel’s fallbacks are no votes', async (t) => {
  const members = NAMES.map(memberNamed);
  const votes = ['B', 'A', 'B, surely', 'none', 'none'];
  const calls = members.map((member) =>
    labelCall(TASK, member, { ...QUESTION, slot: `vote/${member.alias}` }),
  );
  const ask = (call: Call) => ({
    call,
    answer: Promise.resolve(answer(votes[NAMES.indexOf(call.member.alias)]!)),
    cancel: () => undefined,
    // eslint-disable-next-line @typescript-eslint/require-await
    async *[Symbol.asyncIterator]() {},
  });
  const decisions = await chooseAll(calls, 'A', { ask });
  t.same(
    decisions.map(({ label, by }) => [label, by]),
    [
      ['B', 'answer'],
      ['A', 'answer'],
      ['A', 'fallback'],
      ['none', 'answer'],
      ['none', 'answer'],
    ],
  );
  const random = (label: string) => (label === 'tie/B' ? 0.1 : 0.9);
  t.equal(mostVoted(decisions, QUESTION.labels, 'priority', random), 'none');
  t.equal(
    mostVoted(decisions.slice(0, 3), QUESTION.labels, 'priority', random),
    'A',
    'the earliest of the tied',
  );
  t.equal(mostVoted(decisions.slice(0, 3), QUESTION.labels, 'random', random), 'B');
  t.equal(mostVoted(decisions.slice(2, 3), QUESTION.labels, 'priority', random), undefined);
});

void t.test('in rollouts the policy’s label step is free text, and its tokens are trained on', async (t) => {
  const TOKENS = { promptTokenIds: [1], tokenIds: [4], logprobs: [{ logprob: -0.5 }] };
  let draws = 0;
  const cast = new Cast((call) => {
    const { alias } = call.member;
    if (call.choose && alias === 'ada') return { words: [['1', '2', 'two', '2'][draws++]!], more: TOKENS };
    return {
      words: [alias === 'bob' ? 'Answer: 16' : 'Answer: 8'],
      ...(alias === 'ada' && { more: TOKENS }),
    };
  });
  const clock = { now: () => 1, elapsed: () => performance.now() };
  let ids = 0;
  const newId = () => `id-${ids++}`;
  const run = createRunSystem({
    protocols: [route],
    send: cast.send,
    clock,
    newId,
    secret: 's',
    onOutcome: () => undefined,
  });
  const group = await collectGroup(
    {
      plan: planOf(route, {}, [0, 1]),
      task: { ...TASK, gold: '16', verifier: 'numeric' },
      taskId: 'spiders',
      objective: 'team',
      policy: { alias: 'ada', baseModel: 'b', adapter: 'a', version: 1 },
      groupSize: 4,
      advantage: 'rloo',
      visit: 0,
      maxTokens: 64,
    },
    {
      run,
      grade: (outcome) => judge(outcome, verifiers, 0),
      clock,
      newId,
      signal: new AbortController().signal,
    },
  );
  const steps = cast.seen.filter(({ call }) => call.choose);
  t.equal(steps.length, 4);
  for (const { call } of steps) {
    t.match(call.choose, { free: true });
    t.match(call.sampling, { temperature: 1, top_p: 1, max_tokens: 64 });
  }
  t.same(
    group.rollouts.map(({ reward }) => Number(reward)).toSorted((a, b) => a - b),
    [0, 0, 1, 1],
    'what is no label took the fallback, and stayed',
  );
  const turns = group.rollouts.flatMap((rollout) => rollout.turns);
  t.ok(
    turns
      .filter(({ agentRole }) => agentRole === 'route')
      .every(({ trainable, sampling }) => trainable && !sampling.constrained),
  );
  t.equal(
    cast.slots().filter((slot) => slot === 'answer/bob').length,
    2,
    'who follows from the policy is not shared',
  );
});

void t.test('the simulated pool answers label steps, and knows its own answer among others', async (t) => {
  const config: unknown = Value.Default(ModelConfig, {
    id: 'sim-atlas',
    provider: 'sim',
    failures: false,
    delays: false,
  });
  Value.Assert(ModelConfig, config);
  const { send } = sim.open(config);
  const member = memberOf(config);
  const note = { attempts: 0, reused: false, lostUsage: { inputTokens: 0, outputTokens: 0 } };
  const { signal } = new AbortController();
  const reply = (call: Call) => send({ call, emit: () => undefined, signal, stream: false, note });
  let agreed = 0;
  for (let seed = 0; seed < 40; seed++) {
    const task = {
      ...TASK,
      messages: [{ role: 'user' as const, content: `Simulated task sim:reason/${seed}. Which?` }],
    };
    const own = await reply(plainCall(task, member));
    const peers = [own, answer('The final answer is 1.')].map((one, index) => ({
      member: memberNamed(NAMES[index]!),
      slot: `answer/${index}`,
      sample: 0,
      answer: one,
    }));
    const random = (label: string) => Number(label.includes('answer/0')) / 2;
    const shown = peersBlock(peers, { instruction: 'Which answer is right?', random });
    const messages = withUserText(task.messages, shown);
    const call = labelCall(task, member, { ...QUESTION, messages, labels: ['1', '2'] });
    if (readLabel(call, await reply(call), '1').label === '2') agreed++;
  }
  t.equal(agreed, 40);
  const blind = await Promise.all(
    Array.from({ length: 40 }, (_, index) => reply({ ...CALL, member, sample: index })),
  );
  t.same([...new Set(blind.map(({ message }) => message.text))].toSorted(), ['A', 'B', 'none']);
});
