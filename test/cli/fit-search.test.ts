import { createHash } from 'node:crypto';
import t from 'tap';
import { fitOptions, type OptionFitting } from '../../src/cli/fit/options.ts';
import { known } from '../../src/cli/known.ts';
import { clock, newId } from '../../src/cli/natives.ts';
import { catalogOf } from '../../src/cli/system.ts';
import { checkDocument } from '../../src/config/check.ts';
import type { Call } from '../../src/contract/call.ts';
import { textOf } from '../../src/contract/chat.ts';
import type { TaskRow } from '../../src/contract/task.ts';
import { createRunSystem } from '../../src/gateway/engine/run.ts';
import { protocols } from '../../src/gateway/protocols/index.ts';
import { Cast, NAMES, type Act } from '../support/cast.ts';

const catalog = catalogOf(
  checkDocument(
    {
      models: NAMES.map((id) => ({ id, provider: 'openai-compatible', baseUrl: 'http://127.0.0.1:9/v1' })),
      pools: [
        { id: 'five', members: NAMES },
        { id: 'three', members: NAMES.slice(0, 3) },
      ],
      systems: [
        { id: 'five', pool: 'five', protocol: 'swarm' },
        { id: 'chain', pool: 'three', protocol: 'swarm', options: { tree: { ada: 'bob', bob: null } } },
        { id: 'vote', pool: 'five', protocol: 'vote' },
      ],
    },
    known,
  ).config!,
);

const row = (id: string, prompt: string, gold = 'yes'): TaskRow => ({
  id,
  prompt,
  gold,
  verifier: 'exact-match',
});

function fit(
  id: string,
  rows: readonly TaskRow[],
  script: (call: Call) => Act,
  more: Partial<OptionFitting> = {},
) {
  const cast = new Cast(script);
  const parts = { protocols, send: cast.send, clock, newId, secret: 'secret', onOutcome: () => undefined };
  const tried: number[] = [];
  const fitting: OptionFitting = {
    system: catalog.systems.get(`consort/${id}`)!,
    rows,
    seed: 1,
    evaluations: 120,
    concurrency: 4,
    signal: new AbortController().signal,
    onTried: (count) => tried.push(count),
    ...more,
  };
  const result = fitOptions({ catalog, run: createRunSystem(parts) }, fitting);
  return result.then((found) => ({ found, tried, cast }));
}

/** What answers are right for: these members hear from these. */
const planted = { dan: null, eve: 'dan', ada: 'eve', cyd: 'eve', bob: 'dan' };
const edges = Object.entries(planted).filter((edge): edge is [string, string] => edge[1] !== null);
/** Two of each question, one after the other, so that one falls into each half. */
const questions = [0, 1, 2].flatMap((round) =>
  edges.flatMap(([from, to]) =>
    [0, 1].map((copy) => row(`${from}-${to}-${round}-${copy}`, `Does ${to} hear from ${from}?`)),
  ),
);

/** A member tells who has spoken to it, and what these have told it; then it knows whether the question is so. */
function telling({ member, messages }: Call): Act {
  const prompt = textOf(messages.at(-1)!);
  const heard = [...prompt.matchAll(/I am (\w+)\./g)].map(([, alias]) => `${alias}>${member.alias}`);
  const facts = [...heard, ...(prompt.match(/\b\w+>\w+\b/g) ?? [])];
  const [, to, from] = /Does (\w+) hear from (\w+)\?/.exec(prompt) ?? [];
  const answer = facts.includes(`${from}>${to}`) ? 'yes' : 'no';
  return { words: [`I am ${member.alias}. ${facts.join(' ')}\nThe final answer is ${answer}.`] };
}

void t.test(
  'it finds the tree in which the members answer best, and measures it on other tasks',
  async (t) => {
    const { found, tried, cast } = await fit('five', questions, telling);
    t.strictSame(found.options, { tree: planted });
    t.strictSame(found.fitted, { prompts: 12, best: 1, configured: 0 });
    t.match(found.measured, { first: { value: 1, n: 12 }, second: { value: 0 }, difference: { value: 1 } });
    t.ok(found.measured!.difference.interval[0] > 0.5);
    t.equal(found.tried, 120);
    t.strictSame(
      tried,
      Array.from({ length: 120 }, (_, index) => index + 1),
    );
    const { calls, reused } = found.spent;
    t.equal(calls, cast.seen.length);
    t.equal(calls + reused, (120 * 12 + 2 * 12) * 5 + 12 * 5 + 12, 'five calls a run, and members alone');
    t.ok(reused > calls, 'trees share what is the same in them');
    const again = await fit('five', questions, telling, { concurrency: 1 });
    t.strictSame(again.found, found, 'the same seed gives the same');
  },
);

void t.test('where nothing is better the configured tree stays, written out for all members', async (t) => {
  const { found, cast } = await fit('chain', questions, () => ({ words: ['The final answer is no.'] }), {
    evaluations: 5,
  });
  t.strictSame(found.options, { tree: { bob: null, ada: 'bob', cyd: 'bob' } });
  t.strictSame(found.fitted, { prompts: 12, best: 0, configured: 0 });
  t.equal(found.measured, undefined, 'there is nothing to compare it with');
  t.ok(cast.seen.length <= 5 * 12 * 3 + 12 * 3 + 12 * 3 + 12);
});

void t.test('luck that wins the search wins nothing on the other half', async (t) => {
  const rows = Array.from({ length: 40 }, (_, index) => row(`q${index}`, `Question ${index}.`));
  // Right by a coin for each member and all that it has read: no tree is better than another.
  const byChance = ({ member, messages }: Call): Act => {
    const drawn = createHash('sha256')
      .update(JSON.stringify([member.alias, messages]))
      .digest('hex');
    const answer = parseInt(drawn[0]!, 16) % 2 === 0 ? 'yes' : 'no';
    return { words: [`I drew ${drawn}.\nThe final answer is ${answer}.`] };
  };
  const gains: number[] = [];
  const differences: number[] = [];
  for (let seed = 0; seed < 25; seed++) {
    const { found } = await fit('chain', rows, byChance, { seed, evaluations: 9 });
    gains.push(found.fitted.best! - found.fitted.configured!);
    differences.push(found.measured?.difference.value ?? 0);
  }
  const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
  t.ok(mean(gains) > 0.1, `${mean(gains)} on the half that was searched`);
  // Differences have a standard deviation of 0.16 at most: that of their mean is 0.032.
  t.ok(Math.abs(mean(differences)) < 0.13, `${mean(differences)} on the other`);
});

void t.test('it says what cannot be searched, and ends when it is stopped', async (t) => {
  await t.rejects(fit('vote', questions, telling), {
    code: 'usage',
    message: /vote has no options that can be fitted/,
  });
  const together = questions.map((one) => ({ ...one, cluster: 'all' }));
  await t.rejects(fit('five', together, telling), { code: 'usage', message: /20 clusters or more/ });
  const control = new AbortController();
  const reason = new Error('stopped');
  const stopping = fit('five', questions, telling, {
    signal: control.signal,
    onTried: (count) => count === 2 && control.abort(reason),
  });
  await t.rejects(stopping, reason);
});
