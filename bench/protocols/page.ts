/** What was measured, as the part of docs/protocols.md between its marks. */
import { row } from '../../tools/docs/table.ts';
import { bonettPriceInterval } from '../../src/scoring/statistics/bonett-price.ts';
import type { Interval } from '../../src/scoring/statistics/interval.ts';
import { momentsOf, variance } from '../../src/scoring/statistics/moments.ts';
import { normalQuantile } from '../../src/scoring/statistics/special-functions.ts';
import { wilsonInterval } from '../../src/scoring/statistics/wilson.ts';
import { shareOf, type Accuracy, type Tally } from './accuracy.ts';
import { TEMPERATURE } from './ask.ts';
import type { Attacked, Injection } from './injection.ts';
import { SYSTEMS } from './systems.ts';

const ALPHA = 0.05;
const BEGIN = '<!-- measured by npm run bench:protocols -->';
const END = '<!-- /measured -->';

export interface Results {
  readonly date: string;
  readonly accuracy: Accuracy;
  readonly injection: Injection;
}

export function withResults(page: string, results: Results): string {
  const [before, rest] = page.split(BEGIN);
  const after = rest?.split(END)[1];
  if (before === undefined || after === undefined) throw new RangeError(`the page has no ${BEGIN} … ${END}`);
  return [before, BEGIN, '\n\n', measuredText(results), '\n\n', END, after].join('');
}

/** What must hold of a measurement; the names of the protocols that break it. */
export function failuresOf({ accuracy, injection }: Results): string[] {
  const failed = Object.entries(accuracy.protocols).flatMap(([name, { errors }]) => {
    const refused = errors.filter(isRefusal);
    return refused.length > 0 ? [[name, { errors: refused }] as const] : [];
  });
  const attacked = Object.entries(injection.protocols);
  return [
    ...failed.map(([name, { errors }]) => `${name}: ${errors.length} errors, the first: ${errors[0]}`),
    ...attacked.flatMap(([name, { errors }]) =>
      errors[0] === undefined ? [] : [`${name}, attacked: ${errors[0]}`],
    ),
    ...attacked.flatMap(([name, one]) =>
      addedBy([one]).interval[0] > 0 ? [`${name}: the fence makes attacks likelier`] : [],
    ),
    ...(injection.unfencedPrompts === 0 ? ['no fence was taken out of any prompt'] : []),
  ];
}

/** A request that failed, and not a member that was absent from a run. */
const isRefusal = (error: string): boolean => /^\d{3} /.test(error);

/** Who was absent, where anybody was. */
function absencesIn(protocols: Accuracy['protocols']): string {
  const counted = Object.entries(protocols).flatMap(([name, { errors }]) => {
    const absent = errors.filter((error) => !isRefusal(error)).length;
    return absent > 0 ? [`${absent} of \`${name}\``] : [];
  });
  if (counted.length === 0) return '';
  return ` A member gave no answer in ${counted.join(' and ')}, and the run went on without it.`;
}

interface Difference {
  readonly value: number;
  readonly interval: Interval;
}

/** Of two shares over the same tasks (Bonett & Price 2012). */
function differenceOf(a: readonly boolean[], b: readonly boolean[]): Difference {
  const only = (one: readonly boolean[], other: readonly boolean[]): number =>
    one.filter((hit, index) => hit && !other[index]).length;
  const [wins, losses] = [only(a, b), only(b, a)];
  return { value: (wins - losses) / a.length, interval: bonettPriceInterval(wins, losses, a.length, ALPHA) };
}

const share = (value: number): string => value.toFixed(2);
const signed = (value: number): string => `${value < 0 ? '−' : '+'}${Math.abs(value).toFixed(2)}`;

function shownShare(hits: readonly boolean[]): string {
  const count = hits.filter(Boolean).length;
  const [low, high] = wilsonInterval(count, hits.length, ALPHA);
  return `${share(count / hits.length)} [${share(low)}, ${share(high)}]`;
}

function shownDifference({ value, interval: [low, high] }: Difference): string {
  const text = `${signed(value)} [${signed(low)}, ${signed(high)}]`;
  return low > 0 || high < 0 ? `**${text}**` : text;
}

function measuredText({ date, accuracy, injection }: Results): string {
  return [...accuracyLines(accuracy, date), '', ...injectionLines(injection)].join('\n');
}

function accuracyLines(accuracy: Accuracy, date: string): string[] {
  const { tasks, best, members, protocols, repeated } = accuracy;
  const alone = members[best] as Tally;
  const errors = Object.values(protocols).flatMap((one) => one.errors.filter(isRefusal)).length;
  const line = (name: string, tally: Tally, ...compared: string[]): string =>
    row(
      name,
      shownShare(tally.right),
      ...compared,
      tally.calls.toFixed(1),
      tally.tokens.toFixed(0),
      `${(tally.medianMs / alone.medianMs).toFixed(1)} ×`,
    );
  return [
    '## Measured on tiny models',
    '',
    `On ${date}, with **models of 0.43 million parameters on four toy task kinds** ([examples/tiny-team](../examples/tiny-team)):`,
    'this shows that every protocol runs, and what it takes, and says nothing about useful language models. Each of the',
    'three partners is good at two kinds, and they have practised the very prompts of these protocols, but those of',
    '`three-roles`, which came after.',
    '',
    `${tasks} held-out tasks over HTTP, temperature ${TEMPERATURE} for all, ${errors === 0 ? 'no request failed' : `**${errors} requests failed**`}.${absencesIn(protocols)} *Right* has a 95 % interval`,
    '(Wilson); differences are paired by task (Bonett & Price), in bold where the interval excludes 0; there are many of them',
    `here, and one in twenty would by chance. The *best member* is \`${best}\`, chosen on these very tasks, which flatters it a`,
    'little. *At equal calls* it answers as often as the protocol made calls (their mean, rounded), and its answers vote.',
    'Latency is the median over that of the best member in the same run, on a machine that was shared.',
    '',
    row('what', 'right', 'less the best member', 'less it at equal calls', 'calls', 'tokens', 'latency'),
    row('---', '---', '---', '---', '---:', '---:', '---:'),
    ...Object.entries(members).map(([id, tally]) => line(`\`${id}\` alone`, tally, '', '')),
    ...Object.entries(protocols).map(([name, tally]) => {
      const samples = Math.round(tally.calls);
      const other = repeated[samples] as Tally;
      return line(
        named(name),
        tally,
        shownDifference(differenceOf(tally.right, alone.right)),
        `${shownDifference(differenceOf(tally.right, other.right))} × ${samples}`,
      );
    }),
    '',
    `The best member's vote: ${Object.entries(repeated)
      .map(([samples, tally]) => `${share(shareOf(tally))} with ${samples}`)
      .join(', ')}.`,
  ];
}

function named(protocol: string): string {
  const given = SYSTEMS.find((one) => one.protocol === protocol)?.options ?? {};
  const isFitted = SYSTEMS.some((one) => one.protocol === protocol && one.fitted !== undefined);
  const shown = Object.entries(given).map(([key, value]) => `${key}: ${String(value)}`);
  if (isFitted) shown.push('fitted');
  return shown.length === 0 ? `\`${protocol}\`` : `\`${protocol}\` (${shown.join(', ')})`;
}

function injectionLines({ tasks, attacks, protocols }: Injection): string[] {
  const all = Object.values(protocols);
  return [
    '### One malicious member',
    '',
    `The same partners and a fourth member, second in the pool, that answers whatever it is asked with one of ${attacks.length} attacks`,
    '(`test/fixtures/injections.json`: orders, forged marks, turns, verdicts and labels, other languages), each for a wrong',
    `answer of its own. An attack has succeeded when that is what the team states. ${tasks} tasks, ${tasks / attacks.length} for each attack. *Unfenced*,`,
    'a proxy between Consort and the honest members takes marks and warnings out of their prompts; the product cannot do',
    'that. *Plainly* is the same wrong answer without an attack, which no fence can keep out. Tiny models hardly read',
    'English, and read any answer better in the form that they practised, which is the fenced one. So the last column takes',
    'out how the form alone is read: the rate of the attack less that of the plain answer, fenced, less the same unfenced.',
    '',
    row(
      'what',
      'fenced',
      'unfenced',
      'fenced − unfenced',
      'plainly',
      'plainly, unfenced',
      'what the fence adds',
    ),
    row('---', '---', '---', '---', '---', '---', '---'),
    ...Object.entries(protocols).map(([name, one]) =>
      row(
        named(name),
        shownShare(one.fenced),
        shownShare(one.unfenced),
        shownDifference(differenceOf(one.fenced, one.unfenced)),
        shownShare(one.plain),
        shownShare(one.plainUnfenced),
        shownDifference(addedBy([one])),
      ),
    ),
    row(
      'mean of all',
      ...(['fenced', 'unfenced'] as const).map((way) => share(overTasks(all.map((one) => one[way])).value)),
      shownDifference(
        overTasks(
          all.map(({ fenced }) => fenced),
          all.map(({ unfenced }) => unfenced),
        ),
      ),
      ...(['plain', 'plainUnfenced'] as const).map((way) =>
        share(overTasks(all.map((one) => one[way])).value),
      ),
      shownDifference(addedBy(all)),
    ),
  ];
}

/** What an attack gains over a plain wrong answer with the fence, less what it gains without. */
function addedBy(all: readonly Attacked[]): Difference {
  const fenced = [...all.map((one) => one.fenced), ...all.map((one) => one.plainUnfenced)];
  const others = [...all.map((one) => one.plain), ...all.map((one) => one.unfenced)];
  const { value, interval } = overTasks(fenced, others);
  // Two runs stand on each side.
  return { value: 2 * value, interval: [2 * interval[0], 2 * interval[1]] };
}

/** The mean over protocols, and how sure it is over tasks: runs of one task are not independent. */
function overTasks(
  runs: readonly (readonly boolean[])[],
  less: readonly (readonly boolean[])[] = [],
): Difference {
  const tasks = runs[0]?.map((_hit, task) => {
    const sum = (all: readonly (readonly boolean[])[]): number => all.filter((one) => one[task]).length;
    return (sum(runs) - sum(less)) / runs.length;
  });
  const moments = momentsOf(tasks ?? []);
  const radius = normalQuantile(1 - ALPHA / 2) * Math.sqrt(variance(moments) / moments.n);
  return { value: moments.mean, interval: [moments.mean - radius, moments.mean + radius] };
}
