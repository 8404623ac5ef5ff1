import t from 'tap';
import { textOf } from '../../../src/contract/chat.ts';
import type { Call } from '../../../src/contract/call.ts';
import { optionsFor } from '../../../src/gateway/catalog.ts';
import { knowledgeCard } from '../../../src/gateway/protocols/knowledge-card.ts';
import { Cast, performPlan, planOf, TASK, type Act } from '../../support/cast.ts';

const saying = ({ slot }: Call): Act => ({ words: [`I am ${slot}.`] });
const DEFAULTS = optionsFor(knowledgeCard, {});

void t.test('no writer of a passage is held to the form of an answer', async (t) => {
  const cast = new Cast(saying);
  const task = {
    ...TASK,
    messages: [{ role: 'user' as const, content: 'Which one? Reply with A or B only.' }],
    sampling: { ...TASK.sampling, stop: ['\n'] },
    responseFormat: { type: 'json_object' },
  };
  await performPlan(knowledgeCard, cast, planOf(knowledgeCard, DEFAULTS, [0, 1]), { task });
  const cards = cast.seen.filter(({ call }) => call.purpose === 'inform');
  t.equal(cards.length, 2);
  for (const { call } of cards) {
    t.equal(call.sampling.stop, undefined);
    t.equal(call.responseFormat, undefined);
    const prompt = textOf(call.messages.at(-1)!);
    t.ok(prompt.indexOf('Do not answer it') > prompt.indexOf('Reply with A or B only.'), 'has the last word');
  }
  const answer = cast.seen.at(-1)?.call;
  t.strictSame(answer?.sampling.stop, ['\n']);
  t.strictSame(answer?.responseFormat, { type: 'json_object' });
});

void t.test('an excluded answerer writes no passage, and reads those of the others', async (t) => {
  const cast = new Cast(saying);
  const options = optionsFor(knowledgeCard, { answerers: ['bob'], excludeAnswerer: true });
  const { outcome } = await performPlan(knowledgeCard, cast, planOf(knowledgeCard, options, [0, 1, 2]));
  t.strictSame(cast.slots(), ['card/ada', 'card/cyd', 'informed/bob']);
  t.strictSame(outcome.answerFrom, ['bob', 'ada', 'cyd']);
});

void t.test('without a passage of others the answerer answers plainly', async (t) => {
  const options = optionsFor(knowledgeCard, { excludeAnswerer: true });
  const nobody = new Cast((call) => (call.purpose === 'inform' ? { fail: 'upstream_status' } : saying(call)));
  const { outcome } = await performPlan(knowledgeCard, nobody, planOf(knowledgeCard, options, [0, 1]));
  t.match(outcome, { status: 'ok', answer: 'I am answer/ada.', answerFrom: ['ada'] });
  const onlyOwn = new Cast((call) =>
    call.member.alias === 'bob' ? { fail: 'upstream_status' } : saying(call),
  );
  await performPlan(knowledgeCard, onlyOwn, planOf(knowledgeCard, DEFAULTS, [0, 1]));
  t.strictSame(onlyOwn.seen.at(-1)?.call.messages, TASK.messages);
});

void t.test('a passage is never given as the answer', async (t) => {
  const cast = new Cast((call) => (call.speaks ? { fail: 'upstream_status' } : saying(call)));
  const { outcome } = await performPlan(knowledgeCard, cast, planOf(knowledgeCard, DEFAULTS, [0, 1, 2]));
  t.match(outcome, { status: 'failed', errorCode: 'members_failed', answer: null });
});
