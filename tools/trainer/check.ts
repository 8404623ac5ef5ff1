/**
 * `npm run test:trainer`: the whole protocol against a real server, SkyRL's JAX backend on the CPU. Trains a tiny model
 * for twenty steps, in the middle of which the client is thrown away and the server killed; exports the adapter and
 * lets another program (transformers and PEFT) say what it does. Asserts, and writes what it measured into
 * docs/trainers.md. Skips, and says so, where the server is not installed (tools/trainer/install.sh).
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { format, resolveConfig } from 'prettier';
import { row } from '../docs/table.ts';
import { TinkerTrainer } from '../../src/policy/trainers/tinker.ts';
import type { RunOptions, TrainerPort } from '../../src/policy/trainers/trainer.ts';
import { isInstalled, SkyRl } from './server.ts';
import { SEQUENCES, targetLogprob, toyGroup } from './toy.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const environment = resolve(root, process.env['CONSORT_TRAINER'] ?? '.consort/trainer');
const model = join(root, 'examples/tiny-team/models/tiny-policy');
const page = join(root, 'docs/trainers.md');
const STEPS = 20;
const SAVED_AT = 8;
const INTERRUPTED_AT = 11;
const run: RunOptions = { run: 'toy', baseModel: model, rank: 8, seed: 7 };
const lease = { token: 1, isHeld: () => true };

const rows: [name: string, value: string][] = [];
function note(name: string, value: string): void {
  rows.push([name, value]);
  process.stderr.write(`${name}: ${value}\n`);
}

const seconds = (ms: number) => `${(ms / 1000).toFixed(1)} s`;
const nats = (value: number) => value.toFixed(3);

async function timed<T>(name: string, work: () => Promise<T>): Promise<T> {
  const began = performance.now();
  const result = await work();
  note(name, seconds(performance.now() - began));
  return result;
}

/** Mean |difference| over all tokens, in nats. */
function difference(a: readonly number[][], b: readonly number[][]): number {
  const pairs = a.flatMap((values, index) =>
    values.map((value, at) => Math.abs(value - (b[index]?.[at] ?? NaN))),
  );
  return pairs.reduce((sum, value) => sum + value, 0) / pairs.length;
}

/** The same log-probs as transformers and PEFT have them. */
function elsewhere(adapter: string): number[][] {
  const script = fileURLToPath(new URL('adapter.py', import.meta.url));
  const child = spawnSync(join(environment, 'bin/python'), [script, model, adapter], {
    input: JSON.stringify(SEQUENCES),
    encoding: 'utf8',
    timeout: 180_000,
  });
  assert.equal(child.status, 0, child.stderr);
  return JSON.parse(child.stdout) as number[][];
}

function versions(): string {
  const names = ['skyrl', 'jax', 'flax', 'tinker', 'peft', 'transformers', 'torch'];
  const code = `import importlib.metadata as m; print(', '.join(n + ' ' + m.version(n) for n in ${JSON.stringify(names)}))`;
  return spawnSync(join(environment, 'bin/python'), ['-c', code], { encoding: 'utf8' }).stdout.trim();
}

async function submit(trainer: TrainerPort, index: number): Promise<void> {
  const logprobs = await trainer.score(SEQUENCES);
  const group = toyGroup(index, model, logprobs);
  const submission = await trainer.submitGroups({
    groups: [group],
    lengthScale: 3,
    adam: { learningRate: 0.002 },
  });
  assert.equal(submission?.step, index);
  assert.ok(Math.abs(submission.gap.mean) < 1e-3, 'trained on what was just scored');
}

async function train(trainer: TrainerPort, from: number, to: number): Promise<number> {
  const began = performance.now();
  for (let index = from; index <= to; index++) {
    await submit(trainer, index);
    await trainer.step();
    if (index === SAVED_AT) await trainer.saveState();
  }
  return (performance.now() - began) / (to - from + 1);
}

async function check(server: SkyRl, directory: string): Promise<void> {
  const open = () => new TinkerTrainer({ baseUrl: server.url, directory });
  const first = open();
  await timed('self-test and first model', () => first.ensureRun(run, lease));
  note('dialect', JSON.stringify(first.dialect));
  const base = await timed('first forward (compiles)', () => first.score(SEQUENCES));
  note(
    'base model, against transformers',
    `${difference(base, elsewhere('-')).toExponential(1)} nats a token`,
  );
  await timed('step 1 (compiles)', () => train(first, 1, 1));
  note('steps 2 to 10, each', seconds(await train(first, 2, INTERRUPTED_AT - 1)));
  await submit(first, INTERRUPTED_AT);
  await first.close();
  const second = open();
  const state = await timed('a new client finishes step 11', () => second.ensureRun(run, lease));
  assert.equal(state.step, INTERRUPTED_AT);
  const before = await second.score(SEQUENCES);
  await second.close();
  await server.kill();
  note('server started again', seconds(await server.start()));
  const third = open();
  await third.ensureRun(run, lease);
  const after = await timed('model built anew: saved step 8, steps 9 to 11 replayed', () =>
    third.score(SEQUENCES),
  );
  note('weights before and after the kill', `${difference(before, after).toExponential(1)} nats a token`);
  assert.ok(difference(before, after) < 0.01);
  note('steps 12 to 20, each', seconds(await train(third, INTERRUPTED_AT + 1, STEPS)));
  const last = await third.score(SEQUENCES);
  note(
    `log-prob of the target token, base → step ${STEPS}`,
    `${nats(targetLogprob(base))} → ${nats(targetLogprob(last))}`,
  );
  assert.ok(targetLogprob(last) > targetLogprob(base) + 3);
  await exported(third, join(directory, 'adapters', 'toy-000020'), last, base);
  await third.close();
}

async function exported(
  trainer: TrainerPort,
  target: string,
  last: number[][],
  base: number[][],
): Promise<void> {
  const policy = await timed('export, download, check', () => trainer.exportPolicy('toy-000020', target));
  note(
    'adapter',
    `rank ${policy.rank}, ${policy.tensors} tensors, ${policy.targetModules.join(' ')}, ${policy.bytes} bytes packed`,
  );
  const served = elsewhere(target);
  note('adapter, against transformers and PEFT', `${difference(last, served).toExponential(1)} nats a token`);
  assert.ok(difference(last, served) < 0.02, 'another program sees the same policy');
  assert.ok(difference(base, served) > 0.5, 'and not the base model');
}

/** Replaces what stands between the marks of the page. */
async function write(): Promise<void> {
  const marks = ['<!-- measured:begin -->', '<!-- measured:end -->'] as const;
  const table = [row('what', 'measured'), row('---', '---'), ...rows.map((cells) => row(...cells))].join(
    '\n',
  );
  const text = readFileSync(page, 'utf8');
  const [start = -1, end = -1] = marks.map((mark) => text.indexOf(mark));
  assert.ok(start >= 0 && end > start, `${page} has lost its marks`);
  const whole = `${text.slice(0, start)}${marks[0]}\n\n${table}\n\n${text.slice(end)}`;
  writeFileSync(page, await format(whole, { ...(await resolveConfig(page)), filepath: page }));
}

if (!isInstalled(environment)) {
  process.stdout.write(`Skipped: no trainer in ${environment}. Install one with tools/trainer/install.sh.\n`);
} else {
  assert.ok(existsSync(model), `${model} is missing`);
  const directory = mkdtempSync(join(tmpdir(), 'consort-trainer-'));
  const server = new SkyRl({ environment, model, directory });
  note('date', new Date().toISOString().slice(0, 10));
  note('versions', versions());
  try {
    note('server started', seconds(await server.start()));
    await check(server, directory);
    await write();
    process.stdout.write(`All held. The figures are in ${page}.\n`);
  } finally {
    await server.kill();
    rmSync(directory, { recursive: true, force: true });
  }
}
