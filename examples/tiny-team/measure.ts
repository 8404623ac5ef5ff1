/**
 * Measures the models through the server on the held-out tasks, and writes `models/REPORT.json` and the table in
 * README.md: `node measure.ts`. Graded by the product's own exact match.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { exactMatch } from '../../src/scoring/rewards/exact-match.ts';
import { inParallel, TinyTeam } from './client.ts';
import { kinds, seededDraw, type Kind } from './task-kinds.ts';
import { debateMessages, fuseMessages } from './team-prompts.ts';
import type { Chance } from './team-run.ts';

interface Row {
  prompt: string;
  gold: string;
  task: Kind;
}

/** One figure for each kind, and their mean; each kind has as many tasks as the next. */
type Scores = Record<Kind | 'mean', number>;

const partners = ['tiny-ada', 'tiny-bo', 'tiny-cy'];
const policy = 'tiny-policy';
const others = ['tiny-base', 'tiny-dot', 'tiny-eve'];
const everyone = [...partners, policy, ...others];
const seed = 2026;

const here = import.meta.dirname;
const rows = (await readFile(join(here, 'tasks', 'mixed.jsonl'), 'utf8'))
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line) as Row);

await using team = await TinyTeam.start();
let calls = 0;
const start = performance.now();

const greedy = new Map<string, string[]>();
const sampled = new Map<string, string[]>();
for (const model of everyone) {
  greedy.set(model, await alone(model, 0));
  sampled.set(model, await alone(model, 1));
}

const draftsOf = (row: number): string[] => partners.map((model) => greedy.get(model)?.[row] ?? '');
const anyRight = rows.map((row, index) => draftsOf(index).some((draft) => isRight(row, draft)));

const solo = scoresOf(greedy);
const best = Object.fromEntries(
  kinds.map((kind) => [
    kind,
    partners.toSorted((a, b) => (solo[b]?.[kind] ?? 0) - (solo[a]?.[kind] ?? 0))[0],
  ]),
);
const fusedTexts = new Map<string, string[]>();
for (const model of [policy, ...partners]) fusedTexts.set(model, await fused(model));
const debatedTexts = new Map<string, string[]>();
for (const model of partners) debatedTexts.set(model, await debated(model));

const scores = {
  solo,
  soloSampled: scoresOf(sampled),
  partnersAnyRight: summed(anyRight),
  partnersRoutedByKind: summed(
    rows.map((row, index) => isRight(row, greedy.get(best[row.task] ?? '')?.[index])),
  ),
  fuse: scoresOf(fusedTexts),
  debate: scoresOf(debatedTexts),
};
const seconds = (performance.now() - start) / 1000;
await writeReport();

function at(index: number): Row {
  const row = rows[index];
  if (!row) throw new RangeError(`there is no task ${index}`);
  return row;
}

async function ask(model: string, messages: readonly object[], temperature: number): Promise<string> {
  calls += 1;
  return team.say({ model, messages, temperature, seed, max_tokens: 32 });
}

function alone(model: string, temperature: number): Promise<string[]> {
  return inParallel(rows, 8, ({ prompt }) => ask(model, [{ role: 'user', content: prompt }], temperature));
}

/** The model as fuser of the three partners' answers. */
function fused(model: string): Promise<string[]> {
  return inParallel(rows, 8, async ({ prompt }, row) =>
    ask(model, await fuseMessages(prompt, draftsOf(row), chanceOf(row)), 0),
  );
}

/** The partner's second answer, after it has read the other two. */
function debated(model: string): Promise<string[]> {
  return inParallel(rows, 8, async ({ prompt }, row) => {
    const own = greedy.get(model)?.[row] ?? '';
    const read = partners.filter((other) => other !== model).map((other) => greedy.get(other)?.[row] ?? '');
    return ask(model, await debateMessages(prompt, own, read, chanceOf(row)), 0);
  });
}

/** A chance of its own for each task, so that marks and orders do not depend on which call is first. */
function chanceOf(row: number): Chance {
  const draw = seededDraw(seed + row);
  return () => draw(2 ** 30) / 2 ** 30;
}

function isRight({ gold }: Row, text = ''): boolean {
  return exactMatch.grade({ completion: text, gold }).reward === 1;
}

function scored(texts: readonly string[]): Scores {
  return summed(texts.map((text, row) => isRight(at(row), text)));
}

function summed(right: readonly boolean[]): Scores {
  const share = (kept: readonly boolean[]): number =>
    Math.round((kept.filter(Boolean).length / kept.length) * 1000) / 1000;
  const byKind = kinds.map((kind) => [kind, share(right.filter((_, row) => at(row).task === kind))]);
  return Object.fromEntries([...byKind, ['mean', share(right)]]) as Scores;
}

function scoresOf(texts: ReadonlyMap<string, string[]>): Record<string, Scores> {
  return Object.fromEntries([...texts].map(([model, said]) => [model, scored(said)]));
}

async function writeReport(): Promise<void> {
  const report = {
    models: 'seven Llama-style models of 0.43 million parameters each, trained on four toy task kinds',
    tasks: 'tasks/mixed.jsonl',
    n: rows.length,
    nPerKind: rows.length / kinds.length,
    standardErrorAtMost: { kind: 0.036, mean: 0.018 },
    seed,
    ...scores,
    calls,
    callsPerSecond: Math.round(calls / seconds),
  };
  await writeFile(join(here, 'models', 'REPORT.json'), `${JSON.stringify(report, null, 2)}\n`);
  await writeTable();
}

async function writeTable(): Promise<void> {
  const line = (name: string, each: Scores): string =>
    `| ${name} | ${[...kinds, 'mean' as const].map((kind) => each[kind].toFixed(2)).join(' | ')} |`;
  const lines = [
    `| greedy, n = ${rows.length} | ${kinds.join(' | ')} | mean |`,
    `| --- |${' ---: |'.repeat(kinds.length + 1)}`,
    ...everyone.map((model) => line(`\`${model}\` alone`, scores.solo[model] as Scores)),
    line('ada, bo or cy right', scores.partnersAnyRight),
    line('ada, bo, cy: the best one for the kind', scores.partnersRoutedByKind),
    ...[policy, ...partners].map((model) =>
      line(`ada, bo, cy fused by \`${model}\``, scores.fuse[model] as Scores),
    ),
    ...partners.map((model) => line(`\`${model}\` after a round of debate`, scores.debate[model] as Scores)),
  ];
  const path = join(here, 'README.md');
  const readme = await readFile(path, 'utf8');
  const table = `<!-- table -->\n\n${lines.join('\n')}\n\n<!-- /table -->`;
  await writeFile(path, readme.replace(/<!-- table -->.*<!-- \/table -->/s, table));
}
