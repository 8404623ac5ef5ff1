import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { digestOf, verifyAdapter } from '../../../src/policy/release/verify.ts';
import {
  CONFIG,
  fileOf,
  floats,
  goodTensors,
  halves,
  Q_A,
  Q_B,
  safetensors,
  V_B,
  writeAdapter,
  type TensorSpec,
} from './adapter.ts';

const expected = { maxRank: 16, base: 'Qwen/Qwen3-27B' };

t.test('a good adapter passes, and its digest is what sha256sum makes', async (t) => {
  const directory = join(t.testdir(), 'policy-v000001');
  writeAdapter(directory);
  const sha256 = await digestOf(directory);
  const found = await verifyAdapter(directory, { ...expected, sha256 });
  t.same(found, { sha256, rank: 4, alpha: 8, dtype: 'F32', modules: 2, parameters: 64 + 128 + 64 + 32 });
  const lines = execFileSync('sha256sum', ['adapter_config.json', 'adapter_model.safetensors'], {
    cwd: directory,
  });
  t.equal(sha256, createHash('sha256').update(lines).digest('hex'));
  await t.rejects(verifyAdapter(directory, { ...expected, sha256: 'ab'.repeat(32) }), {
    code: 'artifact_invalid',
    message: /abab.* was exported/,
  });
  for (const dtype of ['F16', 'BF16'] as const) {
    const tensors = { [Q_A]: halves(dtype, [4, 16], 0x3c00), [Q_B]: halves(dtype, [32, 4], 1) };
    writeAdapter(directory, safetensors(tensors));
    const one = await verifyAdapter(directory, { ...expected, sha256: await digestOf(directory) });
    t.equal(one.dtype, dtype);
  }
});

const without = (name: string) =>
  Object.fromEntries(Object.entries(goodTensors()).filter(([key]) => key !== name));
const withTensor = (name: string, tensor: TensorSpec) => safetensors({ ...goodTensors(), [name]: tensor });
const good = safetensors(goodTensors());
const entry = (changes: object) =>
  JSON.stringify({ [Q_A]: { dtype: 'F32', shape: [1], data_offsets: [0, 4], ...changes } });

const wrongWeights: readonly (readonly [what: string, weights: Uint8Array, message: RegExp])[] = [
  ['an empty file', Buffer.alloc(0), /header would have 0 bytes of 0/],
  ['a header longer than the file', Buffer.alloc(9, 255), /header would have/],
  ['a torn header', fileOf('{"a":'), /not a JSON object/],
  ['no tensors', fileOf('{}'), /no tensors/],
  ['bytes after the last tensor', Buffer.concat([good, Buffer.alloc(1)]), /tensors end at byte/],
  ['a torn file', good.subarray(0, -4), /tensors end at byte/],
  ['a gap', fileOf(entry({ data_offsets: [4, 8] }), Buffer.alloc(8)), /begins at byte/],
  [
    'a shape of another size',
    fileOf(entry({ shape: [2] }), Buffer.alloc(4)),
    /4 bytes, and its shape makes 8/,
  ],
  ['integers', fileOf(entry({ dtype: 'I32' }), Buffer.alloc(4)), /dtype/],
  ['a negative offset', fileOf(entry({ data_offsets: [-4, 0] }), Buffer.alloc(4)), /data_offsets/],
  [
    'a tensor of no module',
    withTensor(
      'lm_head.weight',
      floats([4, 4], () => 1),
    ),
    /no half of a LoRA module/,
  ],
  ['a missing half', safetensors(without(V_B)), /v_proj has only one half/],
  [
    'another rank than the config says',
    withTensor(
      Q_B,
      floats([32, 8], () => 1),
    ),
    /\[32, 8\], and the rank is 4/,
  ],
  [
    'three dimensions',
    withTensor(
      Q_A,
      floats([4, 4, 4], () => 1),
    ),
    /shape \[4, 4, 4\]/,
  ],
  ['two types', withTensor(Q_B, halves('BF16', [32, 4], 1)), /mixes F32 and BF16/],
  [
    'a NaN',
    withTensor(
      Q_B,
      floats([32, 4], (i) => (i === 100 ? NaN : 1)),
    ),
    /infinity or a NaN/,
  ],
  [
    'an infinity',
    withTensor(
      Q_A,
      floats([4, 16], (i) => (i === 63 ? -Infinity : 1)),
    ),
    /infinity or a NaN/,
  ],
  [
    'an infinity in half precision',
    safetensors({ [Q_A]: halves('F16', [4, 16], 0x7c00), [Q_B]: halves('F16', [32, 4], 1) }),
    /infinity or a NaN/,
  ],
  [
    'lora_B all zero',
    withTensor(
      Q_B,
      floats([32, 4], (i) => (i % 2 ? 0 : -0)),
    ),
    /every lora_B is zero/,
  ],
];

const wrongConfigs: readonly (readonly [what: string, config: unknown, message: RegExp])[] = [
  ['a config that is not JSON', '{', /not JSON/],
  ['DoRA', { ...CONFIG, use_dora: true }, /use_dora/],
  ['modules_to_save', { ...CONFIG, modules_to_save: ['lm_head'] }, /modules_to_save/],
  ['trained biases', { ...CONFIG, bias: 'all' }, /bias/],
  ['another method', { ...CONFIG, peft_type: 'IA3' }, /peft_type/],
  ['no rank', { ...CONFIG, r: undefined }, /'?r'?/],
  ['a rank that is too big', { ...CONFIG, r: 32 }, /rank is 32, and the fleet takes at most 16/],
  ['another base', { ...CONFIG, base_model_name_or_path: 'x' }, /over x, not over Qwen/],
  ['modules that are no targets', { ...CONFIG, target_modules: ['v_proj'] }, /q_proj is not among/],
];

t.test('whatever is wrong with an adapter is named', async (t) => {
  const directory = join(t.testdir(), 'a');
  const rejects = async (what: string, message: RegExp) => {
    const sha256 = await digestOf(directory);
    const check = verifyAdapter(directory, { ...expected, sha256 });
    await t.rejects(check, { code: 'artifact_invalid', message }, what);
  };
  for (const [what, weights, message] of wrongWeights) {
    writeAdapter(directory, weights);
    await rejects(what, message);
  }
  for (const [what, config, message] of wrongConfigs) {
    writeAdapter(directory, good, config);
    await rejects(what, message);
  }
  rmSync(join(directory, 'adapter_model.safetensors'));
  await t.rejects(digestOf(directory), { code: 'artifact_invalid', message: /ENOENT/ });
});

t.test('numbers beyond the first chunk are checked too', async (t) => {
  const directory = join(t.testdir(), 'a');
  const count = 300_000;
  const tensors = (odd: number) => ({
    [Q_A]: floats([4, 4], () => 1),
    [Q_B]: floats([count, 4], (i) => (i === 4 * count - 1 ? odd : 0)),
  });
  writeAdapter(directory, safetensors(tensors(1e-30)));
  await verifyAdapter(directory, { ...expected, sha256: await digestOf(directory) });
  writeAdapter(directory, safetensors(tensors(Infinity)));
  await t.rejects(verifyAdapter(directory, { ...expected, sha256: await digestOf(directory) }), {
    message: /infinity or a NaN/,
  });
});
