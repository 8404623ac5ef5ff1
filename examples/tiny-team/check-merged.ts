/**
 * Checks the merged models, a part of `npm run check`: their weights against another computation, and, through Consort over
 * HTTP, that a coalition runs as the model that was merged from it. `--measure` asks the held-out tasks, too.
 */
import assert from 'node:assert/strict';
import { open, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { readGgufFileInfo } from 'node-llama-cpp';
import { exactMatch } from '../../src/scoring/rewards/exact-match.ts';
import { wilsonInterval } from '../../src/scoring/statistics/wilson.ts';
import { inParallel, TinyTeam } from './client.ts';
import { Gateway } from './gateway.ts';

const here = import.meta.dirname;
const PARENTS = ['tiny-dot', 'tiny-eve'] as const;
const merged = (method: string): string => `${PARENTS.join('.')}.${method}`;

/** Tensors by name, as they are stored: matrices of 16 bits, norms of 32. */
async function tensorsOf(model: string): Promise<Map<string, Float16Array | Float32Array>> {
  const path = join(here, 'models', `${model}.gguf`);
  const { fullTensorInfo = [] } = await readGgufFileInfo(path);
  const file = await open(path);
  try {
    const tensors = new Map<string, Float16Array | Float32Array>();
    for (const { name, dimensions, ggmlType, filePart, fileOffset } of fullTensorInfo) {
      assert.equal(filePart, 1);
      const length = dimensions.reduce<number>((product, size) => product * Number(size), 1);
      const bytes = Buffer.alloc(length * (Number(ggmlType) === 1 ? 2 : 4));
      await file.read(bytes, 0, bytes.length, Number(fileOffset));
      const buffer = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
      tensors.set(name, Number(ggmlType) === 1 ? new Float16Array(buffer) : new Float32Array(buffer));
    }
    return tensors;
  } finally {
    await file.close();
  }
}

const [base, dot, eve] = await Promise.all(['tiny-base', ...PARENTS].map(tensorsOf));
const valuesOf = (tensors: typeof base, name: string): number[] => [
  ...(tensors?.get(name) ?? assert.fail(name)),
];

/** The largest changes of a parent, half of them, as TIES keeps them; a threshold where the recipe sorts. */
function trimmed(name: string, parent: typeof base): number[] {
  const before = valuesOf(base, name);
  const change = valuesOf(parent, name).map((value, at) => Math.fround(value - (before[at] ?? 0)));
  const sizes = change.map(Math.abs).toSorted((a, b) => b - a);
  const kept = Math.round(change.length / 2);
  const least = sizes[kept - 1] ?? 0;
  let ties = kept - sizes.filter((size) => size > least).length;
  return change.map((value) => {
    if (Math.abs(value) > least) return value;
    return Math.abs(value) === least && ties-- > 0 ? value : 0;
  });
}

function tiesOf(name: string): number[] {
  const [one, other] = [trimmed(name, dot), trimmed(name, eve)];
  return valuesOf(base, name).map((value, at) => {
    const changes = [one[at] ?? 0, other[at] ?? 0];
    const sign = Math.sign(Math.fround(changes[0] ?? 0) + Math.fround(changes[1] ?? 0));
    const agreeing = changes.filter((change) => Math.sign(change) === sign);
    const mean = sign === 0 ? 0 : agreeing.reduce((sum, change) => sum + change, 0) / agreeing.length;
    return value + mean;
  });
}

function linearOf(name: string): number[] {
  const [one, other] = [valuesOf(dot, name), valuesOf(eve, name)];
  return one.map((value, at) => (value + (other[at] ?? 0)) / 2);
}

for (const [method, expectedOf] of [
  ['linear', linearOf],
  ['ties', tiesOf],
] as const) {
  const tensors = await tensorsOf(merged(method));
  assert.deepEqual([...tensors.keys()].toSorted(), [...(dot?.keys() ?? [])].toSorted());
  let furthest = 0;
  let different = 0;
  for (const [name, stored] of tensors) {
    const expected =
      stored instanceof Float16Array
        ? Float16Array.from(expectedOf(name))
        : Float32Array.from(expectedOf(name));
    const own = valuesOf(dot, name);
    for (const [at, value] of stored.entries()) {
      furthest = Math.max(
        furthest,
        Math.abs(value - (expected[at] ?? NaN)) / Math.max(1e-3, Math.abs(value)),
      );
      if (value !== own[at]) different++;
    }
  }
  // 16 bits keep 11 digits of a number: sums that are rounded once more may be off by one in the last.
  assert.ok(furthest <= 2 ** -10, `${method} is off by ${furthest}`);
  assert.ok(different > 100_000, 'it is another model');
  console.log(`ok  ${merged(method)} is what merging by ${method} gives`);
}

await using team = await TinyTeam.start();
await using gateway = await Gateway.start('merged.yaml', team.baseUrl);

interface Outcome {
  plan: { merged?: { alias: string }; mask: number; members: { alias: string }[] };
  answerFrom: string[];
  calls: { member: string }[];
}

const prompt = 'Reverse the letters j k g b g. End with: The answer is X.';
for (const method of ['linear', 'ties']) {
  const { text, outcome: id } = await gateway.ask(`consort/${method}`, prompt);
  assert.equal(text, (await gateway.ask(merged(method), prompt)).text, 'the merged model answers');
  const { plan, calls } = await gateway.outcome<Outcome>(id);
  assert.deepEqual(
    plan.members.map(({ alias }) => alias),
    PARENTS,
  );
  assert.equal(plan.mask, 3);
  assert.equal(plan.merged?.alias, merged(method));
  assert.deepEqual(
    calls.map(({ member }) => member),
    [merged(method)],
  );
  console.log(`ok  {${PARENTS.join(', ')}} runs as ${merged(method)}`);
}
const { outcome: id } = await gateway.ask('consort/three', prompt);
const { calls } = await gateway.outcome<Outcome>(id);
assert.deepEqual(new Set(calls.map(({ member }) => member)), new Set([merged('linear'), ...PARENTS]));
console.log('ok  the merged model plays beside its parents');
if (process.argv.includes('--measure')) await measure();

/** How often each is right on the held-out tasks. */
async function measure(): Promise<void> {
  const rows = (await readFile(join(here, 'tasks', 'mixed.jsonl'), 'utf8'))
    .trim()
    .split('\n')
    .map((text) => JSON.parse(text) as { prompt: string; gold: string });
  for (const model of [...PARENTS, 'consort/linear', 'consort/ties']) {
    const rewards = await inParallel(rows, 4, async ({ prompt, gold }) => {
      const { text } = await gateway.ask(model, prompt);
      return (await exactMatch.grade({ completion: text, gold, params: {} })).reward ?? 0;
    });
    const right = rewards.reduce((sum, reward) => sum + reward, 0);
    const [low, high] = wilsonInterval(right, rows.length, 0.05);
    console.log(
      `${model}: ${(right / rows.length).toFixed(3)} [${low.toFixed(3)}, ${high.toFixed(3)}], n ${rows.length}`,
    );
  }
}
