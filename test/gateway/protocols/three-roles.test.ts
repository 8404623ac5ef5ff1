import t from 'tap';
import { textOf, type ChatMessage } from '../../../src/contract/chat.ts';
import type { Call } from '../../../src/contract/call.ts';
import type { Task } from '../../../src/contract/task.ts';
import { optionsFor } from '../../../src/gateway/catalog.ts';
import { historyOf, lastResults, transcriptOf } from '../../../src/gateway/protocols/history.ts';
import type { Options } from '../../../src/gateway/protocols/protocol.ts';
import { threeRoles } from '../../../src/gateway/protocols/three-roles.ts';
import { Cast, labelling, performPlan, planOf, type Act } from '../../support/cast.ts';

const user = (content: string): ChatMessage => ({ role: 'user', content });
const system: ChatMessage = { role: 'system', content: 'You are careful.' };
const toolCall = (id: string, given: string) => ({
  id,
  type: 'function' as const,
  function: { name: 'shell', arguments: given },
});
const calling = (id: string, given: string): ChatMessage => ({
  role: 'assistant',
  content: null,
  tool_calls: [toolCall(id, given)],
});
const result = (id: string, content: string): ChatMessage => ({ role: 'tool', tool_call_id: id, content });

const conversation: ChatMessage[] = [
  system,
  user('Please mend the build of job 4711.'),
  calling('a', '{"run":"make"}'),
  result('a', 'error: no rule for all'),
  user('Go on.'),
  calling('b', '{"run":"make all"}'),
  result('b', 'error: missing separator'),
];
const tools = [{ type: 'function', function: { name: 'shell', parameters: {} } }];

const speaking = ({ slot }: Call): Act => ({ words: [`I am ${slot}.`] });
const run = (
  given: Options,
  positions: number[],
  task: Partial<Task>,
  pick?: (labels: readonly string[], call: Call) => string | undefined,
  script: (call: Call) => Act = speaking,
) => {
  const cast = new Cast(labelling(script, pick));
  const plan = planOf(threeRoles, optionsFor(threeRoles, given), positions);
  const whole = { messages: conversation, sampling: {}, ...task };
  return performPlan(threeRoles, cast, plan, { task: whole }).then((ran) => ({ cast, ...ran }));
};
const callOf = (cast: Cast, slot: string) => cast.seen.find(({ call }) => call.slot === slot)?.call;

void t.test('a conversation is parted so that results stay with the turn that called for them', (t) => {
  const { rules, past, recent } = historyOf(conversation, 1);
  t.strictSame(rules, [system]);
  t.strictSame(past, conversation.slice(1, 5));
  t.strictSame(recent, conversation.slice(5));
  t.strictSame(historyOf(conversation, 99), { rules: [system], past: [], recent: conversation.slice(1) });
  t.strictSame(historyOf([system], 1), { rules: [system], past: [], recent: [] });
  t.strictSame(lastResults(conversation), [conversation[6]]);
  t.strictSame(lastResults(conversation.slice(0, 5)), []);
  t.equal(transcriptOf([conversation[2]!]), 'assistant:\ncalls shell({"run":"make"})');
  t.end();
});

void t.test('a long past is summarised for the agent, and the last turns stay as they are', async (t) => {
  const roles = { summarisers: ['bob'], agents: ['cyd'], correctors: ['ada'] };
  const { cast, outcome } = await run({ ...roles, historyTokens: 0, keepTurns: 2 }, [0, 1, 2], {});
  t.strictSame(cast.slots(), ['summarise/bob', 'act/cyd', 'check/ada']);
  const past = textOf(callOf(cast, 'summarise/bob')!.messages.at(-1)!);
  t.match(past, /between the marks \[[a-z]{6}\]/);
  for (const kept of ['job 4711', 'shell({"run":"make"})', 'no rule for all'])
    t.ok(past.includes(kept), kept);
  t.notMatch(past, 'missing separator');
  const acting = callOf(cast, 'act/cyd')!;
  t.strictSame(acting.messages[0], system);
  t.match(textOf(acting.messages[1]!), 'I am summarise/bob.');
  t.strictSame(acting.messages.slice(2), conversation.slice(5));
  t.strictSame(acting.reads, ['summarise/bob']);
  t.match(outcome, { status: 'ok', answer: 'I am act/cyd.' });
});

void t.test('a short past is not, and without a summariser the history stays whole', async (t) => {
  const short = await run({}, [0, 1], {});
  t.strictSame(short.cast.slots(), ['act/ada', 'check/bob']);
  t.strictSame(callOf(short.cast, 'act/ada')?.messages, conversation);
  const script = (call: Call): Act =>
    call.purpose === 'summarise' && call.member.alias !== 'eve'
      ? { fail: 'upstream_status' }
      : speaking(call);
  const failing = await run(
    { historyTokens: 0, keepTurns: 2, summarisers: ['ada'] },
    [0, 4],
    {},
    undefined,
    script,
  );
  t.strictSame(failing.cast.slots().slice(0, 3), ['summarise/ada', 'summarise/eve', 'act/eve']);
  const none = await run({ historyTokens: 0, keepTurns: 2 }, [0, 1], {}, undefined, (call) =>
    call.slot === 'summarise/ada'
      ? { fail: 'upstream_status' }
      : call.purpose === 'summarise'
        ? { words: [' '] }
        : speaking(call),
  );
  t.equal(none.error?.code, 'members_failed', 'whoever failed to summarise is out of the run');
});

void t.test('the corrector sees the draft and the results that it answers, and nothing else', async (t) => {
  const { cast } = await run({}, [0, 1], {});
  const { messages } = callOf(cast, 'check/bob')!;
  t.equal(messages.length, 1);
  const prompt = textOf(messages[0]!);
  t.match(prompt, /missing separator[^]*I am act\/ada\./, 'in their order');
  for (const unseen of ['careful', '4711', 'no rule', 'Go on']) t.notMatch(prompt, unseen);
});

void t.test('an objection goes to the agent, which drafts once more', async (t) => {
  const { cast, outcome } = await run({}, [0, 1], {}, ([, change]) => change);
  t.strictSame(cast.slots(), ['act/ada', 'check/bob', 'object/bob', 'again/ada']);
  const again = callOf(cast, 'again/ada')!;
  t.strictSame(again.messages[0], system);
  t.match(textOf(again.messages.at(-1)!), /I am act\/ada\.[^]*I am object\/bob\./);
  t.match(outcome, { status: 'ok', answer: 'I am again/ada.' });
  const silent = await run(
    {},
    [0, 1],
    {},
    ([, change]) => change,
    (call) => (call.slot === 'again/ada' ? { fail: 'upstream_status' } : speaking(call)),
  );
  t.match(silent.outcome, { status: 'ok', answer: 'I am act/ada.' }, 'else the draft stands');
});

void t.test('calls of tools are drafts, too: they are checked, and reach the client as calls', async (t) => {
  const script = (call: Call): Act => {
    if (call.purpose !== 'act') return speaking(call);
    t.strictSame(call.tools, tools);
    const message = { text: '', toolCalls: [toolCall('c', '{"run":"make -n"}')] };
    return { words: [], more: { message, finishReason: 'tool_calls' } };
  };
  const { cast, parts, answer, toolCall: by } = await run({}, [0, 1], { tools }, undefined, script);
  t.match(textOf(callOf(cast, 'check/bob')!.messages[0]!), 'calls shell({"run":"make -n"})');
  t.notOk(callOf(cast, 'check/bob')?.tools);
  t.match(parts, [
    { type: 'tool-call-delta', index: 0, id: 'c', name: 'shell', arguments: '{"run":"make -n"}' },
    { type: 'finish', reason: 'tool_calls' },
  ]);
  t.match(answer, { message: { toolCalls: [{ id: 'c' }] } });
  t.equal(by?.slot, 'act/ada');
});

void t.test('a single member plays all roles, or is asked plainly', async (t) => {
  const roles = await run({ historyTokens: 0, keepTurns: 2 }, [3], {}, ([, change]) => change);
  t.strictSame(roles.cast.slots(), ['summarise/dan', 'act/dan', 'check/dan', 'object/dan', 'again/dan']);
  const plain = await run({ historyTokens: 0, alone: 'plain' }, [3], {});
  t.strictSame(plain.cast.slots(), ['answer/dan']);
});
