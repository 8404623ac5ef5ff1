/** nudge, mentor and switch: texts that members write in turns. */
import t from 'tap';
import { textOf } from '../../../src/contract/chat.ts';
import type { Call } from '../../../src/contract/call.ts';
import type { Task } from '../../../src/contract/task.ts';
import { optionsFor } from '../../../src/gateway/catalog.ts';
import { mentor } from '../../../src/gateway/protocols/mentor.ts';
import { nudge } from '../../../src/gateway/protocols/nudge.ts';
import { wordsOf } from '../../../src/gateway/protocols/pieces.ts';
import type { Options, Protocol } from '../../../src/gateway/protocols/protocol.ts';
import { switching } from '../../../src/gateway/protocols/switch.ts';
import { Cast, labelling, performPlan, planOf, TASK, type Act } from '../../support/cast.ts';

type Pick = (labels: readonly string[], call: Call) => string | undefined;
interface Running {
  readonly positions?: number[];
  readonly pick?: Pick;
  readonly task?: Task;
  readonly promptInstance?: string;
}
const run = (
  protocol: Protocol,
  given: Options,
  script: (call: Call) => Act,
  { positions = [0, 1], pick, task, promptInstance = 'prompt' }: Running = {},
) => {
  const cast = new Cast(labelling(script, pick));
  const plan = planOf(protocol, optionsFor(protocol, given), positions, { promptInstance });
  return performPlan(protocol, cast, plan, task && { task }).then((ran) => ({ cast, ...ran }));
};

/** What stands before the piece that is asked for. */
const before = ({ continues, messages }: Call) => (continues ? textOf(messages.at(-1)!) : '');

/** A piece as an endpoint gives it: tokens with the probability of the likeliest in each place. */
const piece = (tokens: readonly (readonly [string, number])[], isEnd = false): Act => ({
  words: tokens.map(([text]) => text),
  more: {
    finishReason: isEnd ? 'stop' : 'length',
    logprobs: tokens.map(([token, top]) => ({
      token,
      logprob: -9,
      top_logprobs: [
        { token, logprob: -9 },
        { token: '?', logprob: Math.log(top) },
      ],
    })),
  },
});

/** Goes on with its own text by as many words as asked for, wherever the text so far stands in it. */
const writing =
  (texts: Readonly<Record<string, string>>) =>
  (call: Call): Act => {
    const all = texts[call.member.alias]!.match(/\s*\S+/g)!;
    const said = before(call).match(/\S+/g)?.length ?? 0;
    const words = all.slice(said, said + call.sampling.max_tokens!);
    return piece(
      words.map((word) => [word, 1]),
      said + words.length >= all.length,
    );
  };

void t.test('nudge: the base writes what it is sure of, and the guide the words between', async (t) => {
  // The base is unsure of the third token, and of everything after "seven".
  const script = (call: Call): Act => {
    const text = before(call);
    if (call.member.alias === 'bob') {
      if (text === '')
        return piece([
          ['We', 1],
          [' say', 1],
          [' now', 1],
        ]);
      if (text === 'We add two')
        return piece([
          [' plus', 1],
          [' five', 1],
          [' is', 1],
        ]);
      return piece([['.', 1]], true);
    }
    if (text === 'We')
      return piece([
        [' add', 0.9],
        [' two', 0.5],
        [' and', 0.3],
        [' six', 0.9],
      ]);
    if (text === 'We add two plus') return piece([[' x', 0.1]]);
    if (text === 'We add two plus five')
      return piece(
        [
          [' is', 0.6],
          [' seven', 0.4],
        ],
        true,
      );
    throw new Error(text);
  };
  const { cast, outcome } = await run(nudge, {}, script);
  t.match(outcome, { status: 'ok', answer: 'We add two plus five is seven.', finishReason: 'stop' });
  t.strictSame(new Set(outcome.answerFrom), new Set(['ada', 'bob']));
  const asked = cast.seen.map(({ call }) => `${call.member.alias}: ${before(call)}`);
  t.strictSame(asked, [
    'bob: ',
    'ada: We',
    'bob: We add two',
    'ada: We add two plus',
    // The guide's next word is used without asking it again.
    'ada: We add two plus five',
    'bob: We add two plus five is seven',
  ]);
});

void t.test('nudge: a token that ends the text and is none of its words changes nothing', async (t) => {
  const script = (call: Call): Act => {
    const act = writing({ ada: 'one two three', bob: 'un deux trois' })(call);
    const end = { token: '<|end|>', logprob: -1, top_logprobs: [{ token: '<|end|>', logprob: -1 }] };
    return { ...act, more: { ...act.more, logprobs: [...act.more!.logprobs!, end] } };
  };
  const { outcome } = await run(nudge, {}, script);
  t.equal(outcome.answer, 'un two three', 'the base was sure of its words');
});

void t.test(
  'nudge: without log-probabilities the base is never sure, and the guide writes all',
  async (t) => {
    const script = (call: Call): Act => {
      const act = writing({ ada: 'one two three', bob: 'un deux trois' })(call);
      return { ...act, more: { finishReason: act.more!.finishReason! } };
    };
    const { outcome } = await run(nudge, {}, script);
    t.equal(outcome.answer, 'un deux trois');
  },
);

void t.test('nudge: roles are filled by the lists, and others are spares', async (t) => {
  const script = writing({ ada: 'a b c', bob: 'a b c', cyd: 'a b c', dan: 'a b c' });
  const { cast } = await run(nudge, { bases: ['cyd'], guides: ['dan'] }, script, { positions: [0, 1, 2, 3] });
  t.strictSame(new Set(cast.seen.map(({ call }) => call.member.alias)), new Set(['cyd', 'dan']));
  const failing = (call: Call): Act =>
    call.member.alias === 'dan' ? { fail: 'upstream_status' } : script(call);
  const spare = await run(nudge, { bases: ['cyd'], guides: ['dan'] }, failing, { positions: [0, 2, 3] });
  t.match(spare.outcome, { status: 'ok', answer: 'a b c' });
  t.equal(spare.cast.seen[1]?.call.member.alias, 'ada');
});

void t.test('mentor: the generator sees both ways to go on, and its choice counts', async (t) => {
  const script = writing({ ada: 'It is six. Yes.', bob: 'It is eight, surely. Yes.' });
  const seen = new Set<string>();
  for (let prompt = 0; prompt < 20; prompt++) {
    for (const own of [true, false]) {
      let shown = '';
      const pick: Pick = (labels, { messages }) => {
        const text = textOf(messages.at(-1)!);
        shown = text;
        const places = ['six.', 'eight,'].map((word) => text.indexOf(word));
        const first = places[0]! < places[1]! ? 'own first' : 'other first';
        seen.add(first);
        return labels[(first === 'own first') === own ? 0 : 1];
      };
      const more = { pick, promptInstance: `${prompt}` };
      const { outcome, cast } = await run(mentor, { share: 1, patch: 4 }, script, more);
      if (own) t.match(outcome, { answer: /six/ });
      else t.match(outcome, { answer: /eight/ });
      t.match(shown, /between the marks \[[a-z]{6}\]/, 'fenced');
      t.notMatch(shown, /\b(ada|bob)\b/, 'and without names');
      const label = cast.seen.find(({ call }) => call.choose)!.call;
      t.equal(label.messages.at(-2)?.role, 'assistant');
      t.equal(label.member.alias, 'ada');
    }
  }
  t.equal(seen.size, 2, 'neither place is the generator’s own');
});

void t.test(
  'mentor: what is no label is the generator’s own, and where they agree nothing is asked',
  async (t) => {
    const script = writing({ ada: 'It is six.', bob: 'It is eight.' });
    const prose = await run(mentor, { share: 1 }, script, { pick: () => 'the second, perhaps' });
    t.equal(prose.outcome.answer, 'It is six.');
    const same = await run(mentor, { share: 1 }, writing({ ada: 'It is six.', bob: 'It is six.' }));
    t.notOk(same.cast.seen.some(({ call }) => call.choose));
  },
);

void t.test('mentor: how often it is asked is its share of the words', async (t) => {
  const words = Array.from({ length: 400 }, (_, index) => `w${index}`).join(' ');
  const script = writing({ ada: words, bob: words });
  const options = { share: 0.25, patch: 16, maxTokens: 400 };
  const { cast, outcome } = await run(mentor, options, script);
  t.equal(outcome.answer, words);
  const asked = cast.seen.filter(({ call }) => call.member.alias === 'bob').length;
  // Binomial with n = 400 and p = 1/4: outside of 71 to 130 with probability below 10⁻³.
  t.ok(asked >= 71 && asked <= 130, `${asked}`);
});

void t.test('switch: the selector reads who wrote what, by numbers, and names who goes on', async (t) => {
  const script = writing({ ada: 'one two three four', bob: 'un deux trois quatre' });
  const prompts: string[] = [];
  const pick: Pick = (labels, { messages }) => {
    const text = textOf(messages.at(-1)!);
    prompts.push(text);
    const line = new RegExp(`^(\\d)\\. Good at what ${prompts.length % 2 ? 'bob' : 'ada'}`, 'm');
    return labels[Number(line.exec(text)![1]) - 1];
  };
  const { outcome, cast } = await run(switching, { patch: 1 }, script, { pick });
  t.match(outcome, { answer: 'un two trois four', finishReason: 'stop' });
  t.match(prompts[0], 'Nothing is written yet');
  t.match(prompts[2], /\[([a-z]{6})\] 1\nun\n\[\1\] 2\ntwo\n\[\1\]\n/);
  const [bob, ada] = ['bob', 'ada'].map(
    (name) => new RegExp(`^(\\d)\\. .* ${name} `, 'm').exec(prompts[2]!)![1],
  );
  t.match(prompts[2], `Piece 1: by assistant ${bob}.\nPiece 2: by assistant ${ada}.`);
  t.strictSame(
    cast.slots().filter((slot) => slot.startsWith('piece')),
    ['piece-1/bob', 'piece-2/ada', 'piece-3/bob', 'piece-4/ada'],
  );
  t.equal(before(cast.seen.at(-1)!.call), 'un two trois', 'text goes on without anything in between');
});

void t.test('switch: without a label whoever wrote last goes on', async (t) => {
  const script = writing({ ada: 'one two three', bob: 'un deux trois' });
  let turn = 0;
  const pick: Pick = (labels, { messages }) => {
    if (turn++ > 0) return 'anybody';
    return labels[Number(/^(\d)\. .* bob /m.exec(textOf(messages.at(-1)!))![1]) - 1];
  };
  const { outcome } = await run(switching, { patch: 1 }, script, { pick });
  t.equal(outcome.answer, 'un deux trois');
  const first = await run(switching, { patch: 1 }, script, { pick: () => 'anybody' });
  t.equal(first.outcome.answer, 'one two three', 'at first the first of the pool');
});

void t.test(
  'a piece that begins to think is no piece, and a first one that is empty a failure',
  async (t) => {
    const script = writing({ ada: 'one two <think>no</think> three', bob: 'un deux trois' });
    const options = { patch: 2, selectors: ['bob'] };
    const pick: Pick = (labels, { messages }) =>
      labels[Number(/^(\d)\. .* ada /m.exec(textOf(messages.at(-1)!))?.[1] ?? 1) - 1];
    const { outcome } = await run(switching, options, script, { pick });
    t.match(outcome, { answer: 'one two trois', answerFrom: ['ada', 'bob'] });
    const silent = (call: Call): Act => (call.member.alias === 'ada' && !call.choose ? {} : script(call));
    const empty = await run(switching, options, silent, { pick });
    t.match(empty.outcome, {
      answer: 'un deux trois',
      absences: [{ member: 'ada', code: 'upstream_empty' }],
    });
  },
);

void t.test('a form that several authors cannot be held to is refused before any call', async (t) => {
  for (const protocol of [nudge, mentor, switching]) {
    const task = { ...TASK, responseFormat: { type: 'json_object' } };
    const { cast, error } = await run(protocol, {}, () => ({}), { task });
    t.match(error, { code: 'not_supported', param: 'response_format' });
    t.strictSame(cast.seen, []);
  }
});

void t.test('of a piece that was cut off the last word is left out, unless it is the only one', (t) => {
  t.strictSame(wordsOf({ text: ' one two thr', isEnd: false }), [' one', ' two']);
  t.strictSame(wordsOf({ text: ' one two three', isEnd: true }), [' one', ' two', ' three']);
  t.strictSame(wordsOf({ text: 'antidisest', isEnd: false }), ['antidisest']);
  t.strictSame(wordsOf({ text: ' \n', isEnd: true }), []);
  t.end();
});
