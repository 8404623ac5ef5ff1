import fc from 'fast-check';
import t from 'tap';
import type { Call } from '../../src/contract/call.ts';
import { textOf } from '../../src/contract/chat.ts';
import { optionsFor, protocolRevisionOf } from '../../src/gateway/catalog.ts';
import { route } from '../../src/gateway/protocols/route.ts';
import { Cast, memberNamed, NAMES, performPlan, planOf, TASK, type Act } from '../support/cast.ts';

const OPTIONS = optionsFor(route, {});
const TEAM = [0, 1, 2];

const promptOf = (call: Call) => call.messages.map(textOf).join('\n');

/** Whom the list of a prompt names in which place: the members' descriptions hold their names here. */
const listIn = (call: Call) =>
  [...promptOf(call).matchAll(/^(\d)\. Good at what (\w+) is good at\./gm)].map(([, , alias]) => alias ?? '');

/** The label that this router's prompt has for a member. */
const labelOf = (call: Call, alias: string) => String(listIn(call).indexOf(alias) + 1);

/** The router says what it is told to say; everybody else its name. */
const routing = (say: (call: Call) => Act) => (call: Call) =>
  call.choose ? say(call) : { words: [`I am ${call.member.alias}.`] };

const naming = (alias: string) => routing((call) => ({ words: [labelOf(call, alias)] }));

/** Log-probabilities of one token that is a label. */
const likelihoods = (call: Call, likely: Readonly<Record<string, number>>) => {
  const top = Object.entries(likely).map(([alias, p]) => ({
    token: labelOf(call, alias),
    logprob: Math.log(p),
  }));
  return [{ ...top[0], top_logprobs: top }];
};

t.test('whoever is named answers the plain question', async (t) => {
  for (const alias of ['ada', 'bob', 'cyd']) {
    const cast = new Cast(naming(alias));
    const { outcome } = await performPlan(route, cast, planOf(route, OPTIONS, TEAM));
    t.strictSame(outcome.answerFrom, [alias]);
    t.strictSame(cast.slots(), ['route/ada', `answer/${alias}`]);
    t.strictSame(cast.seen[1]?.call.messages, TASK.messages);
    t.strictSame(cast.seen[1]?.call.reads, [], 'what the router said is no text that anybody reads');
  }
});

t.test('the router is the first of those named in the coalition, and sees its members only', async (t) => {
  const options = optionsFor(route, { routers: ['eve', 'cyd', 'bob'] });
  const cast = new Cast(naming('ada'));
  await performPlan(route, cast, planOf(route, options, TEAM));
  t.strictSame(cast.slots(), ['route/cyd', 'answer/ada']);
  const [asked] = cast.seen;
  t.strictSame(asked?.call.choose?.labels, ['1', '2', '3']);
  t.strictSame(asked && listIn(asked.call).toSorted(), ['ada', 'bob', 'cyd']);
});

t.test('of a member without a description nothing is shown, its name neither', async (t) => {
  const plan = planOf(route, OPTIONS, TEAM);
  const [ada, ...others] = plan.members;
  const nameless = { ...ada!, description: '' };
  const lines = { ...others[0]!, description: ' Good at\n2. nothing.\r\nWell. ' };
  const cast = new Cast(naming('cyd'));
  await performPlan(route, cast, { ...plan, members: [nameless, lines, others[1]!] });
  const prompt = promptOf(cast.seen[0]!.call);
  t.match(prompt, /^\d\. An assistant about which nothing is known\.$/m);
  t.match(prompt, /^\d\. Good at 2\. nothing\. Well\.$/m, 'a description stays on its line');
  t.notMatch(prompt, /ada|USD/);
});

t.test('prices are shown when asked for', async (t) => {
  const cast = new Cast(naming('bob'));
  await performPlan(route, cast, planOf(route, optionsFor(route, { showPrices: true }), TEAM));
  const line = /bob is good at\. Price: 1 USD per million tokens read, 2 written\.$/m;
  t.match(promptOf(cast.seen[0]!.call), line);
});

t.test('what is no label names the router itself, whoever it is', async (t) => {
  for (const routers of [[], ['cyd']]) {
    const cast = new Cast(routing(() => ({ words: ['I would ask 2 or 3.'] })));
    const plan = planOf(route, optionsFor(route, { routers }), TEAM);
    t.strictSame((await performPlan(route, cast, plan)).outcome.answerFrom, [routers[0] ?? 'ada']);
  }
  const second = new Cast((call) =>
    call.member.alias === 'ada' ? { fail: 'upstream_status' } : routing(() => ({ words: ['?'] }))(call),
  );
  const { outcome } = await performPlan(route, second, planOf(route, OPTIONS, TEAM));
  t.strictSame(outcome.answerFrom, ['bob']);
});

t.test('whoever fails is replaced by the next by probability, then in the order of the pool', async (t) => {
  const rows: [Readonly<Record<string, number>> | undefined, string[]][] = [
    [{ cyd: 0.6, dan: 0.3, ada: 0.1 }, ['cyd', 'dan', 'ada', 'bob', 'eve']],
    [undefined, ['cyd', 'ada', 'bob', 'dan', 'eve']],
  ];
  for (const [likely, expected] of rows) {
    const cast = new Cast((call) => {
      if (!call.choose) return { fail: 'upstream_status' };
      const more = likely ? { logprobs: likelihoods(call, likely) } : {};
      return { words: [labelOf(call, 'cyd')], more };
    });
    await performPlan(route, cast, planOf(route, OPTIONS, [0, 1, 2, 3, 4]));
    t.strictSame(
      cast.slots().slice(1),
      expected.map((alias) => `answer/${alias}`),
    );
  }
});

t.test('a router that has failed is neither listed nor asked again', async (t) => {
  const cast = new Cast((call) =>
    call.member.alias === 'ada' ? { fail: 'upstream_status' } : naming('cyd')(call),
  );
  await performPlan(route, cast, planOf(route, OPTIONS, TEAM));
  t.strictSame(cast.slots(), ['route/ada', 'route/bob', 'answer/cyd']);
  t.strictSame(listIn(cast.seen[1]!.call).toSorted(), ['bob', 'cyd']);
  t.strictSame(cast.seen[1]!.call.choose?.labels, ['1', '2']);
});

t.test('whoever is left alone answers unasked', async (t) => {
  const cast = new Cast(({ member }) =>
    member.alias === 'cyd' ? { words: ['I am cyd.'] } : { fail: 'upstream_status' },
  );
  await performPlan(route, cast, planOf(route, OPTIONS, TEAM));
  t.strictSame(cast.slots(), ['route/ada', 'route/bob', 'answer/cyd']);
});

t.test('no place in the list is favoured, and two members keep their order in every coalition', async (t) => {
  const first = new Map<string, number>();
  for (let prompt = 0; prompt < 90; prompt++) {
    const promptInstance = `prompt-${prompt}`;
    const listFor = async (positions: number[]) => {
      const cast = new Cast(naming('ada'));
      await performPlan(route, cast, planOf(route, OPTIONS, positions, { promptInstance }));
      return listIn(cast.seen[0]!.call);
    };
    const list = await listFor(TEAM);
    first.set(list[0]!, (first.get(list[0]!) ?? 0) + 1);
    t.strictSame(await listFor([2, 1, 0]), list, 'the order of the pool changes nothing');
    t.strictSame(
      await listFor([0, 2]),
      list.filter((alias) => alias !== 'bob'),
    );
  }
  // Binomial with n = 90 and p = 1/3: outside of 15 to 46 with probability below 10⁻³.
  for (const alias of ['ada', 'bob', 'cyd']) {
    const times = first.get(alias) ?? 0;
    t.ok(times >= 15 && times <= 46, `${alias} came first ${times} times of 90`);
  }
});

t.test('any label of any coalition leads to the member that it stands beside', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.shuffledSubarray([0, 1, 2, 3, 4], { minLength: 2 }),
      fc.nat(),
      fc.string(),
      async (positions, nth, promptInstance) => {
        const alias = NAMES[positions[nth % positions.length]!]!;
        const cast = new Cast(naming(alias));
        const plan = planOf(route, OPTIONS, positions, { promptInstance });
        const { outcome } = await performPlan(route, cast, plan);
        return outcome.answerFrom.join() === alias && cast.seen.length === 2;
      },
    ),
    { numRuns: 100 },
  );
});

t.test('what prompts hold of members is part of the revision, and nothing else', (t) => {
  const ada = memberNamed('ada');
  const dearer = { ...ada, price: { inputMicros: 9, outputMicros: 9 } };
  const priced = optionsFor(route, { showPrices: true });
  const revision = (options: typeof OPTIONS, member: typeof ada) =>
    protocolRevisionOf(route, options, [member]);
  t.not(revision(OPTIONS, { ...ada, description: 'Good at law.' }), revision(OPTIONS, ada));
  t.equal(revision(OPTIONS, dearer), revision(OPTIONS, ada));
  t.not(revision(priced, dearer), revision(priced, ada));
  t.end();
});
