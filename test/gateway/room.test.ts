import fc from 'fast-check';
import t from 'tap';
import { textOf as contentOf } from '../../src/contract/chat.ts';
import { bytesOf, fit, roomFor } from '../../src/gateway/protocols/room.ts';
import { peersBlock, shuffled } from '../../src/gateway/protocols/peers.ts';
import { memberNamed, NAMES, TASK, USAGE } from '../support/cast.ts';

const NOTE = /\n\[… (\d+) characters left out …\]\n/;

function contributionsOf(texts: readonly string[]) {
  return texts.map((text, index) => ({
    member: memberNamed(NAMES[index % NAMES.length]!),
    slot: `answer/${index}`,
    sample: 0,
    answer: { message: { text }, finishReason: 'stop' as const, usage: USAGE, from: [] },
  }));
}

t.test('texts that fit stay as they are, and cut ones say what is missing', (t) => {
  fc.assert(
    fc.property(fc.array(fc.string({ unit: 'grapheme', maxLength: 300 })), fc.nat(2_000), (texts, room) => {
      const fitted = fit(texts, room);
      const total = texts.reduce((sum, text) => sum + bytesOf(text), 0);
      if (total <= room) t.strictSame(fitted, texts);
      let kept = 0;
      for (const [index, text] of texts.entries()) {
        const [head = '', missing, tail = ''] = fitted[index]!.split(NOTE);
        if (fitted[index] === text) {
          kept += bytesOf(text);
          continue;
        }
        kept += bytesOf(head) + bytesOf(tail);
        if (!text.startsWith(head) || !text.endsWith(tail)) return false;
        if ([...head, ...tail].length + Number(missing) !== [...text].length) return false;
      }
      return kept <= Math.max(room, 0);
    }),
  );
  t.end();
});

t.test('short texts stay whole while long ones share what is left, their ends first', (t) => {
  const [short, long] = fit(['Answer: 16', `${'a'.repeat(500)}${'z'.repeat(500)}`], 310);
  t.equal(short, 'Answer: 16');
  t.equal(long, `${'a'.repeat(100)}\n[… 700 characters left out …]\n${'z'.repeat(200)}`);
  t.end();
});

t.test('the room is what the window leaves beside the prompt and the answer', (t) => {
  const member = { ...memberNamed('ada'), capabilities: { context: 1_000 } };
  const room = roomFor(member, TASK.messages, { max_tokens: 400 });
  const prompt = TASK.messages.reduce((sum, message) => sum + bytesOf(contentOf(message)), 0);
  t.equal(room, (1_000 - 400 - 3 * 8) * 3 - prompt);
  t.equal(roomFor(member, TASK.messages, { max_completion_tokens: 400 }), room);
  t.ok(
    roomFor(member, TASK.messages, {}) > room,
    'without a limit a quarter of the window is for the answer',
  );
  t.equal(roomFor(memberNamed('ada'), TASK.messages, {}), Infinity);
  t.equal(roomFor(member, [{ role: 'user', content: 'x'.repeat(9_000) }], {}), 0);
  t.end();
});

t.test('a block of answers keeps to its room, with every mark in its place', (t) => {
  const random = (label: string) => bytesOf(label) / 100;
  const answers = contributionsOf(['short', 'é'.repeat(3_000), 'x'.repeat(3_000)]);
  const whole = peersBlock(answers, { instruction: 'Go on.', random });
  const marks = whole.split(/\[[a-z]{6}\]/).length;
  for (const room of [900, 2_000, 5_000]) {
    const block = peersBlock(answers, { instruction: 'Go on.', random, room });
    t.ok(bytesOf(block) <= room, `${bytesOf(block)} of ${room}`);
    t.equal(block.split(/\[[a-z]{6}\]/).length, marks);
    t.match(block, /\nshort\n/);
    t.match(block, NOTE);
    t.ok(block.endsWith('\nGo on.'));
  }
  t.match(
    peersBlock(answers, { introduction: 'Critiques stand between the marks %s.', instruction: '', random }),
    /^Critiques stand between the marks \[[a-z]{6}\]\.\n/,
  );
  t.strictSame(
    shuffled(answers, (label) => -Number(label.split('/')[2])).map(({ slot }) => slot),
    ['answer/2', 'answer/1', 'answer/0'],
  );
  t.end();
});
