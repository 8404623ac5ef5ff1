import { getEventListeners } from 'node:events';
import { setImmediate as tick, setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import Type from 'typebox';
import { isAbsent, type Answer, type Call, type Exchange, type Send } from '../../src/contract/call.ts';
import type { SharedCalls } from '../../src/contract/capabilities.ts';
import { ConsortError } from '../../src/contract/errors.ts';
import type { Part } from '../../src/contract/part.ts';
import type { Member } from '../../src/contract/plan.ts';
import { untilAborted } from '../../src/gateway/engine/abort.ts';
import { budget, Purse } from '../../src/gateway/engine/budget.ts';
import { callSeed, chanceFor } from '../../src/gateway/engine/chance.ts';
import { bitsOf } from '../../src/gateway/engine/outcome.ts';
import { costMicros, record, type CallBook } from '../../src/gateway/engine/record.ts';
import { startCall } from '../../src/gateway/engine/reply.ts';
import { callKey, reuse } from '../../src/gateway/engine/reuse.ts';
import { upright } from '../../src/gateway/engine/upright.ts';
import { callOf } from '../../src/gateway/protocols/ask-all.ts';
import { defineProtocol, type Protocol } from '../../src/gateway/protocols/protocol.ts';
import { single } from '../../src/gateway/protocols/single.ts';
import { vote } from '../../src/gateway/protocols/vote.ts';
import { Cast, memberNamed, performPlan, planOf, TASK, USAGE } from '../support/cast.ts';

const CALL: Call = {
  slot: 'answer/ada',
  member: memberNamed('ada'),
  purpose: 'answer',
  messages: TASK.messages,
  sampling: {},
  sample: 0,
  reads: [],
  speaks: true,
};
const ANSWER: Answer = { message: { text: '16' }, finishReason: 'stop', usage: USAGE, from: ['ada'] };
const AT = { slot: 'answer/ada', choice: 0 };
const WORD: Part = { type: 'text-delta', ...AT, text: '16' };

interface Heard extends Exchange {
  readonly parts: Part[];
}

function exchangeOf(more: Partial<Exchange> = {}): Heard {
  const parts: Part[] = [];
  return {
    call: CALL,
    parts,
    emit: (part) => {
      parts.push(part);
    },
    signal: new AbortController().signal,
    stream: false,
    note: { attempts: 0, reused: false, lostUsage: { inputTokens: 0, outputTokens: 0 } },
    ...more,
  };
}

/** Fails with these in turn, then answers. */
function failing(...errors: readonly Error[]): Send & { count: number } {
  const send = Object.assign(
    () => {
      const error = errors[send.count++];
      return error === undefined ? Promise.resolve(ANSWER) : Promise.reject(error);
    },
    { count: 0 },
  );
  return send;
}

const passing = () => new ConsortError('upstream_unreachable', ['ada', 'ECONNRESET']);

t.test('a wait ends with its work or with its signal, and leaves no listener', async (t) => {
  const { signal } = new AbortController();
  t.equal(await untilAborted(Promise.resolve(1), signal), 1);
  await t.rejects(untilAborted(Promise.reject(new RangeError('no')), signal), RangeError);
  await tick();
  t.equal(getEventListeners(signal, 'abort').length, 0);
  const control = new AbortController();
  const reason = new ConsortError('deadline', [5]);
  const waiting = untilAborted(new Promise(() => undefined), control.signal);
  control.abort(reason);
  await t.rejects(waiting, reason);
  await t.rejects(
    untilAborted(Promise.resolve(1), control.signal),
    reason,
    'also when it was aborted before',
  );
});

t.test('budget: counts calls before they start and money after, what failed attempts cost too', async (t) => {
  const limits = { calls: 3, costMicros: 25, deadlineMs: 1 };
  const purse = new Purse(limits);
  const paid = budget(purse)(failing());
  await paid(exchangeOf());
  t.equal(purse.callsLeft, 2);
  const note = { attempts: 2, reused: false, lostUsage: { inputTokens: 14, outputTokens: 0 } };
  await t.rejects(budget(purse)(failing(passing()))(exchangeOf({ note })), { code: 'upstream_unreachable' });
  await t.rejects(paid(exchangeOf()), { code: 'budget_spent', message: /0.000025 USD of 0.000025 USD/ });
  t.equal(purse.callsLeft, 1, 'a refused call is none');
  const single = new Purse({ ...limits, calls: 1, costMicros: null });
  const both = [budget(single)(failing())(exchangeOf()), budget(single)(failing())(exchangeOf())];
  const results = await Promise.allSettled(both);
  t.strictSame(
    results.map(({ status }) => status),
    ['fulfilled', 'rejected'],
    'also side by side',
  );
});

t.test('a cost is never rounded down', (t) => {
  const price = { inputMicros: 1, outputMicros: 3_000_000 };
  t.equal(costMicros({ inputTokens: 1, outputTokens: 0 }, price), 1);
  t.equal(costMicros({ inputTokens: 0, outputTokens: 2 }, price), 6);
  t.equal(costMicros({ inputTokens: 0, outputTokens: 0 }, price), 0);
  t.end();
});

t.test(
  'upright: an empty answer is a failure that has cost its tokens, unless bytes pass through',
  async (t) => {
    const empty: Answer = { ...ANSWER, message: { text: ' \n', reasoning: 'hm' } };
    const silent: Send = () => Promise.resolve(empty);
    const exchange = exchangeOf();
    await t.rejects(upright(false)(silent)(exchange), { code: 'upstream_empty' });
    t.strictSame(exchange.note.lostUsage, USAGE);
    t.equal(await upright(true)(silent)(exchangeOf()), empty);
    const tool = { id: 'a', type: 'function' as const, function: { name: 'f', arguments: '{}' } };
    const calling: Answer = { ...ANSWER, message: { text: '', toolCalls: [tool] } };
    t.equal(await upright(false)(() => Promise.resolve(calling))(exchangeOf()), calling);
    let count = 0;
    const counting: Send = () => Promise.resolve(((count += 1), ANSWER));
    const signal = AbortSignal.abort(new ConsortError('deadline', [1]));
    await t.rejects(upright(false)(counting)(exchangeOf({ signal })), { code: 'deadline' });
    t.equal(count, 0);
  },
);

t.test('reuse: shares what is identical in all that can change an answer, and nothing else', (t) => {
  const key = (more: Partial<Call>, replicate = 0) => callKey({ ...CALL, ...more }, replicate);
  t.equal(key({ slot: 'other', purpose: 'revise', reads: ['x'], speaks: false }), key({}));
  for (const [name, other] of Object.entries({
    member: key({ member: memberNamed('bob') }),
    revision: key({ member: { ...CALL.member, revision: 'r2' } }),
    messages: key({ messages: [] }),
    sampling: key({ sampling: { temperature: 1 } }),
    sample: key({ sample: 1 }),
    replicate: key({}, 1),
    tools: key({ tools: [] }),
    format: key({ responseFormat: {} }),
    extra: key({ extra: {} }),
  })) {
    t.not(other, key({}), name);
  }
  t.end();
});

t.test('reuse: asks once, repeats to whoever comes later, and keeps no failure', async (t) => {
  const shared: SharedCalls = new Map();
  const gate = Promise.withResolvers<Answer>();
  let count = 0;
  const sharing = reuse(
    shared,
    0,
  )(() => {
    count++;
    return gate.promise;
  });
  const [first, second] = [exchangeOf(), exchangeOf()];
  const both = Promise.all([sharing(first), sharing(second)]);
  gate.resolve(ANSWER);
  t.strictSame(await both, [ANSWER, ANSWER]);
  t.equal(count, 1);
  t.strictSame([first.note.reused, second.note.reused], [false, true]);
  t.match(second.parts, [WORD, { type: 'finish', reason: 'stop' }]);
  await sharing(exchangeOf({ stream: true }));
  t.equal(count, 2, 'a stream must be heard as it comes');

  const failed = failing(passing());
  const unlucky = reuse(new Map(), 0)(failed);
  const results = await Promise.allSettled([unlucky(exchangeOf()), unlucky(exchangeOf())]);
  t.strictSame(
    results.map(({ status }) => status),
    ['rejected', 'rejected'],
    'who waited shares it',
  );
  t.equal(failed.count, 1);
  t.equal(await unlucky(exchangeOf()), ANSWER, 'who comes later does not');
});

t.test('reuse: the end of the run that asked is no end for those who wait', async (t) => {
  for (const code of ['client_gone', 'deadline', 'budget_spent'] as const) {
    const gate = Promise.withResolvers<Answer>();
    const sends = [() => gate.promise, () => Promise.resolve(ANSWER)];
    let count = 0;
    const sharing = reuse(new Map(), 0)(() => sends[Math.min(count++, 1)]!());
    const owner = sharing(exchangeOf());
    const waiters = [exchangeOf(), exchangeOf(), exchangeOf()];
    const answers = Promise.all(waiters.map((exchange) => sharing(exchange)));
    gate.reject(new ConsortError(code));
    await t.rejects(owner, { code });
    t.strictSame(await answers, [ANSWER, ANSWER, ANSWER]);
    t.equal(count, 2, 'one of them asks anew for all');
    t.strictSame(
      waiters.map(({ note }) => note.reused),
      [false, true, true],
    );
  }
});

t.test('record: says when the first word came, not the first sign of life', async (t) => {
  let now = 0;
  const book: CallBook = { records: [], startedAt: 0, clock: { now: () => 0, elapsed: () => now } };
  const slow: Send = async ({ emit }) => {
    now = 10;
    await emit({ type: 'opaque', ...AT });
    now = 20;
    await emit(WORD);
    now = 30;
    return ANSWER;
  };
  await record(book)(slow)(exchangeOf());
  await t.rejects(record(book)(failing(passing()))(exchangeOf()), { code: 'upstream_unreachable' });
  t.match(book.records, [
    { startMs: 0, firstPartMs: 20, endMs: 30, status: 'ok', finishReason: 'stop', costMicros: 11 },
    {
      startMs: 30,
      firstPartMs: null,
      status: 'failed',
      errorCode: 'upstream_unreachable',
      usage: { inputTokens: 0 },
    },
  ]);
});

t.test('a reply can be streamed, awaited or both, and holds its source when its reader lags', async (t) => {
  let waits = 0;
  const chatty: Send = async ({ emit }) => {
    for (let i = 0; i < 200; i++) {
      const wait = emit(WORD);
      if (wait) waits++;
      await wait;
    }
    return ANSWER;
  };
  const reply = startCall(CALL, chatty, new AbortController(), true);
  await tick();
  t.equal(waits, 1, 'the source waits as long as nobody reads');
  let count = 0;
  for await (const part of reply) if (part === WORD) count++;
  t.equal(count, 200);
  t.equal(await reply.answer, ANSWER);
  const unheard = startCall({ ...CALL, speaks: false }, chatty, new AbortController(), true);
  t.equal(await unheard.answer, ANSWER, 'a call that does not speak waits for nobody');
  const dropped = startCall(CALL, chatty, new AbortController(), true);
  for await (const part of dropped) if (part) break;
  t.equal(await dropped.answer, ANSWER, 'nor one whose reader has left');
});

t.test('an answer never rejects', async (t) => {
  for (const [error, status] of [
    [passing(), 'failed'],
    [new ConsortError('upstream_timeout', ['ada', 5, 'x']), 'timeout'],
    [new ConsortError('deadline', [5]), 'timeout'],
    [new ConsortError('client_gone'), 'cancelled'],
    [new ConsortError('call_not_needed'), 'cancelled'],
    [new ConsortError('budget_spent', ['x']), 'refused'],
    [new TypeError('a fault of ours'), 'failed'],
  ] as const) {
    const reply = startCall(CALL, failing(error), new AbortController(), true);
    for await (const part of reply) t.fail(part.type);
    t.match(await reply.answer, { absent: true, status });
  }
  const control = new AbortController();
  const reply = startCall(
    CALL,
    upright(false)(() => new Promise(() => undefined)),
    control,
    true,
  );
  reply.cancel();
  t.match(await reply.answer, { absent: true, status: 'cancelled' });
});

t.test(
  'chance: the same name draws the same, whatever the coalition, and different names spread evenly',
  (t) => {
    const plan = planOf(vote, {}, [0, 1, 2]);
    const draw = chanceFor('secret', plan);
    t.equal(draw('x'), chanceFor('secret', planOf(vote, {}, [1]))('x'));
    for (const other of [
      chanceFor('other', plan),
      chanceFor('secret', { ...plan, promptInstance: 'p2' }),
      chanceFor('secret', { ...plan, seed: '1' }),
      chanceFor('secret', { ...plan, replicate: 1 }),
    ]) {
      t.not(other('x'), draw('x'));
    }
    const buckets = new Uint32Array(10);
    for (let i = 0; i < 10_000; i++) buckets[Math.floor(draw(`n${i}`) * 10)]!++;
    // Chi-square with 9 degrees of freedom: above 33.7 with probability 10⁻⁴.
    const chi2 = buckets.reduce((sum, count) => sum + (count - 1_000) ** 2 / 1_000, 0);
    t.ok(chi2 < 33.7, `chi-square ${chi2.toFixed(1)}`);
    t.equal(callSeed(plan, CALL), callSeed({ ...plan, members: [], mask: 1 }, { ...CALL, slot: 'other' }));
    t.not(callSeed(plan, CALL), callSeed(plan, { ...CALL, member: { ...CALL.member, revision: 'r2' } }));
    t.end();
  },
);

t.test('the bits of a mask, also beyond 31', (t) => {
  t.strictSame(bitsOf(0), []);
  t.strictSame(bitsOf(0b1011), [0, 1, 3]);
  t.strictSame(bitsOf(2 ** 40 + 1), [0, 40]);
  t.end();
});

/** A protocol for one test. */
function protocolOf(run: Protocol['run']): Protocol {
  return defineProtocol({
    name: 'ad-hoc',
    version: 1,
    summary: '',
    source: '',
    options: Type.Object({}),
    streams: false,
    tools: false,
    reuse: 'A',
    symmetric: () => false,
    describe: () => ({ calls: 1, path: 1, widest: 1 }),
    run,
  });
}

const draft = (name: string) =>
  callOf(TASK, memberNamed(name), {
    slot: `draft/${name}`,
    purpose: 'answer',
    messages: TASK.messages,
    canReachClient: true,
  });

t.test('a run ends after its calls: one that nobody waits for is stopped and recorded', async (t) => {
  const hasty = protocolOf(async function* (_task, _team, _options, { ask }) {
    ask(draft('bob'));
    ask(draft('cyd'));
    const answer = await ask(draft('ada')).answer;
    if (isAbsent(answer)) throw answer.error;
    yield WORD;
    return answer;
  });
  const cast = new Cast(({ member }) => (member.alias === 'ada' ? { words: ['16'] } : { hang: 'polite' }));
  const { outcome } = await performPlan(hasty, cast, planOf(hasty, {}, [0, 1, 2]));
  t.equal(outcome.status, 'ok');
  t.strictSame(
    outcome.calls.map(({ slot, status }) => [slot, status]),
    [
      ['draft/ada', 'ok'],
      ['draft/bob', 'cancelled'],
      ['draft/cyd', 'cancelled'],
    ],
  );
  t.equal(outcome.usage.inputTokens, 3 * USAGE.inputTokens, 'with what they had cost');
});

/** Puts up its first answer and asks for a second one. */
const offering = protocolOf(async function* (task, [first, second], _options, { ask, offer }) {
  const call = (member: Member, slot: string) =>
    callOf(task, member, {
      slot,
      purpose: 'answer',
      messages: task.messages,
      canReachClient: true,
      speaks: true,
    });
  const draft = await ask(call(first!, 'draft/ada')).answer;
  if (isAbsent(draft)) throw draft.error;
  offer({ slot: 'draft/ada', answer: draft });
  const reply = ask(call(second!, 'final/bob'));
  yield* reply;
  const final = await reply.answer;
  if (isAbsent(final)) throw final.error;
  return final;
});

t.test('the best so far is the answer when time or money ends the run, and is marked', async (t) => {
  const hanging = (words: string[]) =>
    new Cast(({ slot }) => (slot === 'draft/ada' ? { words: ['16'] } : { words, hang: 'polite' }));
  const short = { budget: { calls: 9, costMicros: null, deadlineMs: 30 } };
  const late = await performPlan(offering, hanging([]), planOf(offering, {}, [0, 1], short));
  t.equal(late.error, undefined);
  t.match(late.outcome, { status: 'ok', answer: '16', answerFrom: ['ada'], cutShort: 'deadline' });
  t.match(late.parts.slice(-2), [{ type: 'text-delta', text: '16', slot: 'draft/ada' }, { type: 'finish' }]);
  const poor = { budget: { calls: 1, costMicros: null, deadlineMs: 9_000 } };
  const broke = await performPlan(offering, hanging([]), planOf(offering, {}, [0, 1], poor));
  t.match(broke.outcome, { status: 'ok', answer: '16', cutShort: 'budget' });
  const heard = await performPlan(offering, hanging(['Well, ']), planOf(offering, {}, [0, 1], short));
  t.match(
    heard.outcome,
    { status: 'timeout', answer: null },
    'what the client has read cannot be taken back',
  );
  t.equal(heard.outcome.cutShort, undefined);
  const failing = new Cast(({ slot }) =>
    slot === 'draft/ada' ? { words: ['16'] } : { fail: 'upstream_status' },
  );
  const failed = await performPlan(offering, failing, planOf(offering, {}, [0, 1]));
  t.match(failed.outcome, { status: 'failed', answer: null }, 'a failure is the protocol’s to mend');
  const control = new AbortController();
  const leaving = hanging([]);
  const left = performPlan(offering, leaving, planOf(offering, {}, [0, 1]), { signal: control.signal });
  while (leaving.seen.length < 2) await tick();
  control.abort();
  t.match((await left).outcome, { status: 'cancelled', answer: null });
  const whole = await performPlan(
    offering,
    new Cast(({ slot }) => ({ words: [slot] })),
    planOf(offering, {}, [0, 1]),
  );
  t.match(whole.outcome, { status: 'ok', answer: 'final/bob' });
  t.equal(whole.outcome.cutShort, undefined);
});

t.test('a fault of a protocol is an internal error, and the run still has its outcome', async (t) => {
  // oxlint-disable-next-line require-yield -- it throws before
  const broken = protocolOf(async function* () {
    await tick();
    throw new RangeError('a fault of ours');
  });
  const { error, outcome, outcomes } = await performPlan(
    broken,
    new Cast(() => ({})),
    planOf(broken, {}, [0]),
  );
  t.match(error, { code: 'internal', cause: { message: 'a fault of ours' } });
  t.match(outcome, { status: 'failed', errorCode: 'internal' });
  t.equal(outcomes.length, 1);
});

t.test('a run leaves no listener and no timer behind', async (t) => {
  const { signal } = new AbortController();
  const cast = new Cast(() => ({ words: ['16'] }));
  for (let i = 0; i < 3; i++)
    await performPlan(vote, cast, planOf(vote, { samples: 1, ties: 'priority' }, [0, 1]), { signal });
  await sleep(1);
  t.equal(getEventListeners(signal, 'abort').length, 0);
  t.ok(cast.seen.every((seen) => getEventListeners(seen.signal, 'abort').length === 0));
  t.notOk(process.getActiveResourcesInfo().includes('Timeout'), 'no deadline is left running');
});

t.test('the first word of a run is a word', async (t) => {
  const cast = new Cast(() => ({ words: [] }));
  const { outcome } = await performPlan(single, cast, planOf(single, {}, [0]));
  t.equal(outcome.firstPartMs, null);
  const task = { ...TASK, passThrough: {} };
  const passed = await performPlan(
    single,
    new Cast(() => ({ fail: 'upstream_truncated' })),
    planOf(single, {}, [0]),
    { task },
  );
  t.match(passed.parts, [{ type: 'opaque' }]);
  t.equal(passed.outcome.firstPartMs, null, 'not a sign of life that passes through');
  const spoken = await performPlan(single, new Cast(() => ({ words: ['16'] })), planOf(single, {}, [0]));
  t.ok(spoken.outcome.firstPartMs !== null);
});
