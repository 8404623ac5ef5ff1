import t from 'tap';
import { textOf } from '../../../src/contract/chat.ts';
import type { Call } from '../../../src/contract/call.ts';
import { optionsFor } from '../../../src/gateway/catalog.ts';
import { bestOfN } from '../../../src/gateway/protocols/best-of-n.ts';
import type { Options } from '../../../src/gateway/protocols/protocol.ts';
import { Cast, labelling, performPlan, planOf, type Act } from '../../support/cast.ts';

const ANSWERS: Readonly<Record<string, string>> = { ada: '8', bob: '16', cyd: '16.0', dan: '9', eve: '9' };
const stating = ({ slot, member }: Call): Act => ({
  words: [`I am ${slot}. The final answer is ${ANSWERS[member.alias]}.`],
});
type Pick = (labels: readonly string[], call: Call) => string | undefined;
const run = (given: Options, positions: number[], pick: Pick, script: (call: Call) => Act = stating) => {
  const cast = new Cast(labelling(script, pick));
  const plan = planOf(bestOfN, optionsFor(bestOfN, given), positions);
  return performPlan(bestOfN, cast, plan).then(({ outcome }) => ({ cast, outcome }));
};
/** Names the candidate of this slot, wherever it stands. */
const naming =
  (slot: string): Pick =>
  (labels, { messages }) => {
    const shown: string[] = textOf(messages.at(-1)!).match(/I am answer\/\S+(?=\. )/g) ?? [];
    return labels[shown.indexOf(`I am ${slot}`)];
  };
const prose: Pick = () => 'The second one, I would say.';
/** The grade of a candidate by its answer. */
const grading =
  (grades: Readonly<Record<string, string>>): Pick =>
  (_labels, { messages }) =>
    grades[/final answer is (\d+)/.exec(textOf(messages.at(-1)!))?.[1] ?? ''];

void t.test('the judge names one, and those who state the same are one candidate', async (t) => {
  for (const slot of ['answer/ada', 'answer/bob', 'answer/dan']) {
    const { cast, outcome } = await run({}, [0, 1, 2, 3], naming(slot));
    t.match(outcome, { status: 'ok', answer: new RegExp(slot), answerFrom: [slot.split('/')[1]] });
    const judged = cast.seen.at(-1)!.call;
    t.strictSame(judged.reads, ['answer/ada', 'answer/bob', 'answer/dan'], 'cyd states what bob does');
    t.equal(judged.choose?.labels.length, 3);
  }
});

void t.test('when all state the same nobody judges', async (t) => {
  const { cast, outcome } = await run({}, [1, 2], prose);
  t.strictSame(cast.slots(), ['answer/bob', 'answer/cyd']);
  t.match(outcome, { status: 'ok', answer: /answer\/bob/ });
});

void t.test('what is no label decides nothing: the answer that most say stands', async (t) => {
  const chosen = await run({}, [0, 1, 2], prose);
  t.match(chosen.outcome, { answer: /answer\/bob/ }, 'two say 16');
  const graded = await run({ mode: 'grade' }, [0, 1, 2, 3], prose);
  t.match(graded.outcome, { answer: /answer\/bob/ });
  const tied = await run({}, [0, 1, 3], prose);
  t.match(tied.outcome, { answer: /answer\/ada/ }, 'of several the earliest');
});

void t.test('the best grade wins, a tie goes to what most say, then to the pool’s order', async (t) => {
  const best = await run({ mode: 'grade' }, [0, 1, 2, 3], grading({ 8: '2', 16: '3', 9: '5' }));
  t.match(best.outcome, { answer: /answer\/dan/ });
  t.strictSame(best.cast.slots().slice(4), ['grade/ada/ada', 'grade/ada/bob', 'grade/ada/dan']);
  const most = await run({ mode: 'grade' }, [0, 1, 2, 3], grading({ 8: '5', 16: '5', 9: '5' }));
  t.match(most.outcome, { answer: /answer\/bob/ });
  const first = await run({ mode: 'grade' }, [0, 1, 3], grading({ 8: '4', 16: '4', 9: '1' }));
  t.match(first.outcome, { answer: /answer\/ada/ });
  const some = await run({ mode: 'grade' }, [0, 1, 3], grading({ 9: '2' }));
  t.match(some.outcome, { answer: /answer\/dan/ }, 'no grade is no grade, not the worst');
});

void t.test('grades are means over the labels’ probabilities where these are told', async (t) => {
  const telling = (call: Call): Act => {
    if (!call.choose) return stating(call);
    const isDan = textOf(call.messages.at(-1)!).includes('answer/dan');
    // All say 4; that of dan was nearly a 5, those of the others nearly a 3.
    const [likely, other] = [
      { token: '4', logprob: Math.log(0.55) },
      { token: isDan ? '5' : '3', logprob: Math.log(0.45) },
    ];
    return { words: ['4'], more: { logprobs: [{ ...likely, top_logprobs: [likely, other] }] } };
  };
  const { outcome } = await run({ mode: 'grade' }, [0, 1, 3], () => '4', telling);
  t.match(outcome, { answer: /answer\/dan/ });
});

void t.test('samples of one member are candidates of their own, also of a coalition of one', async (t) => {
  const script = ({ slot, sample }: Call): Act => ({
    words: [`I am ${slot}. The final answer is ${sample}.`],
  });
  const { cast, outcome } = await run({ samples: 3 }, [2], naming('answer/cyd/2'), script);
  t.strictSame(cast.slots(), ['answer/cyd', 'answer/cyd/1', 'answer/cyd/2', 'judge/cyd']);
  t.match(outcome, { status: 'ok', answer: /cyd\/2/ });
});

void t.test('a judge that fails is replaced, and who failed before does not judge', async (t) => {
  const failing = (slots: string[]) => (call: Call) =>
    slots.some((slot) => call.slot.startsWith(slot)) ? ({ fail: 'upstream_status' } as const) : stating(call);
  const first = await run({ judges: ['bob'] }, [0, 1, 3], naming('answer/dan'), failing(['judge/bob']));
  t.strictSame(first.cast.slots().slice(3), ['judge/bob', 'judge/ada']);
  t.match(first.outcome, { answer: /answer\/dan/ });
  const absent = await run({ judges: ['bob'] }, [0, 1, 3], naming('answer/dan'), failing(['answer/bob']));
  t.strictSame(absent.cast.slots().slice(3), ['judge/ada']);
  const grades = grading({ 8: '1', 9: '2' });
  const mixed = await run({ mode: 'grade' }, [0, 3], grades, failing(['grade/ada/dan']));
  t.strictSame(mixed.cast.slots().slice(2), ['grade/ada/ada', 'grade/ada/dan', 'grade/dan/dan']);
  t.match(mixed.outcome, { answer: /answer\/dan/ });
});
