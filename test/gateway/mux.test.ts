import fc from 'fast-check';
import t from 'tap';
import type { Call } from '../../src/contract/call.ts';
import { optionsFor } from '../../src/gateway/catalog.ts';
import { mux } from '../../src/gateway/protocols/mux.ts';
import { Cast, NAMES, performPlan, planOf, type Act } from '../support/cast.ts';

/** What each member's samples state, one character each; `!` is a failure and `?` states nothing. */
type Samples = Readonly<Record<string, string>>;

const say = (samples: Samples, { member, sample }: Call): Act => {
  const stated = samples[member.alias]?.[sample];
  if (stated === '!') return { fail: 'upstream_status' };
  return {
    words: stated === '?' ? ['Who\n', 'knows.'] : [`Sample ${sample}.\n`, `The answer is ${stated}.`],
  };
};

async function heard(samples: Samples, given: object, more: object = {}) {
  const options = optionsFor(mux, { samples: Object.values(samples)[0]?.length, earlyExit: 0, ...given });
  const positions = Object.keys(samples).map((alias) => NAMES.indexOf(alias));
  const cast = new Cast((call) => say(samples, call));
  const { outcome } = await performPlan(mux, cast, planOf(mux, options, positions, more));
  return { from: outcome.answerFrom.join(), answer: outcome.answer, calls: cast.seen.length };
}

t.test('the member that agrees most with itself is heard, with its first sample that says so', async (t) => {
  const rows: [Samples, string, string][] = [
    [{ ada: '12345', bob: '11123', cyd: '12233' }, 'bob', 'Sample 0.\nThe answer is 1.'],
    [{ ada: '12345', bob: '31114', cyd: '12233' }, 'bob', 'Sample 1.\nThe answer is 1.'],
    [{ ada: '11??!', bob: '99988' }, 'bob', 'Sample 0.\nThe answer is 9.'],
    [{ ada: '1????', bob: '22???' }, 'bob', 'Sample 0.\nThe answer is 2.'],
    [{ ada: '1!!!!', bob: '22345' }, 'bob', 'Sample 0.\nThe answer is 2.'],
    [{ ada: '!!!!!', bob: '?????' }, 'bob', 'Who\nknows.'],
    [{ ada: '?????', bob: '1????' }, 'bob', 'Sample 0.\nThe answer is 1.'],
    [{ ada: '22133', bob: '44156' }, 'ada', 'Sample 0.\nThe answer is 2.'],
  ];
  for (const [samples, from, answer] of rows) {
    t.match(await heard(samples, {}), { from, answer }, JSON.stringify(samples));
  }
});

t.test('what failed or cannot be read counts against a member', async (t) => {
  // Of ada's readable samples all agree, of bob's three in five.
  t.match(await heard({ ada: '11???', bob: '33345' }, {}), { from: 'bob' });
  t.match(await heard({ ada: '11!!!', bob: '33345' }, {}), { from: 'bob' });
});

t.test('a calibrated member is trusted as its data say', async (t) => {
  const samples = { ada: '11112', bob: '33345' };
  const of = async (calibration: object) => (await heard(samples, { calibration })).from;
  t.equal(await of({}), 'ada');
  t.equal(await of({ ada: [0, 0, 0, 0.59, 1] }), 'bob', 'sure of what is wrong');
  t.equal(await of({ ada: [0, 0, 0, 0.61, 0] }), 'ada');
  t.equal(await of({ bob: [0, 0, 0.79, 1, 1] }), 'ada');
  t.equal(await of({ bob: [0, 0, 0.81, 0, 0] }), 'bob');
  t.equal(await of({ ada: [0, 0, 0, 0.9, 0], bob: [0, 0, 0.9, 0, 0] }), 'ada', 'a tie goes to the earlier');
  t.equal(await of({ bob: [0.2, 0.9] }), 'bob', 'three of five are more than one of two');
  t.equal(await of({ cyd: [1] }), 'ada', 'of no matter to others');
  const silent = { ada: '?????', bob: '13456' };
  t.match(
    await heard(silent, { calibration: { ada: [1, 1, 1, 1, 1] } }),
    { from: 'bob' },
    'who states nothing',
  );
});

t.test('options that cannot be meant are refused', (t) => {
  for (const given of [{ samples: 1 }, { calibration: { ada: [] } }, { calibration: { ada: [1.1] } }]) {
    t.throws(() => optionsFor(mux, given), { code: 'option_invalid' });
  }
  t.end();
});

t.test('a coalition of one keeps its samples', async (t) => {
  t.match(await heard({ cyd: '12321' }, {}), { from: 'cyd', answer: /1\.$/, calls: 5 });
});

t.test('who is stopped changes neither who is heard nor a word', async () => {
  const stated = fc.string({ unit: fc.constantFrom('1', '2', '3', '?', '!'), minLength: 3, maxLength: 3 });
  const share = fc.double({ min: 0, max: 1, noNaN: true });
  const team = fc.array(
    fc.record({ stated, ticks: fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 3, maxLength: 3 }) }),
    { minLength: 1, maxLength: 4 },
  );
  let stopped = 0;
  await fc.assert(
    fc.asyncProperty(
      team,
      fc.constantFrom('priority', 'random'),
      fc.dictionary(fc.constantFrom(...NAMES), fc.array(share, { minLength: 3, maxLength: 3 })),
      fc.string(),
      async (members, ties, calibration, promptInstance) => {
        const samples = Object.fromEntries(members.map((one, index) => [NAMES[index]!, one.stated]));
        const positions = members.map((_one, index) => index);
        const run = async (earlyExit: number) => {
          const cast = new Cast((call) => ({
            ...say(samples, call),
            ticks: members[NAMES.indexOf(call.member.alias)]!.ticks[call.sample]!,
          }));
          const options = optionsFor(mux, { samples: 3, ties, calibration, earlyExit });
          return (await performPlan(mux, cast, planOf(mux, options, positions, { promptInstance }))).outcome;
        };
        const [eager, patient] = [await run(1), await run(0)];
        if (eager.earlyExit === 'taken') stopped++;
        return eager.answer === patient.answer && eager.answerFrom.join() === patient.answerFrom.join();
      },
    ),
    { numRuns: 400 },
  );
  t.ok(stopped > 40, `stopped in ${stopped} of 400`);
});
