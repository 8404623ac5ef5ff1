/** Writes LoRA adapters for the tiny models as PEFT does, for the checks. */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { seededChance } from './server/sample.ts';

export interface Tensor {
  shape: [number, number];
  values: Float32Array;
}

export const width = 96;
export const layers = [0, 1, 2];
const inner = 256;
const vocabulary = 512;

/** Rows and columns of every matrix that an adapter can change in a block. */
const shapes: Record<string, [number, number]> = {
  'self_attn.q_proj': [width, width],
  'self_attn.k_proj': [width, width],
  'self_attn.v_proj': [width, width],
  'self_attn.o_proj': [width, width],
  'mlp.gate_proj': [inner, width],
  'mlp.up_proj': [inner, width],
  'mlp.down_proj': [width, inner],
};

export const keyOf = (module: string, side: 'A' | 'B'): string =>
  `base_model.model.${module}.lora_${side}.weight`;

/** Changes every linear layer; `scale` 0 makes all of lora_B zero. */
export function randomAdapter(seed: number, rank: number, scale: number): Record<string, Tensor> {
  const chance = seededChance(seed);
  const tensor = (shape: [number, number], size: number): Tensor => ({
    shape,
    values: Float32Array.from({ length: shape[0] * shape[1] }, () => (chance() - 0.5) * size),
  });
  const blocks = layers.flatMap((layer) =>
    Object.entries(shapes).map(([part, shape]) => [`model.layers.${layer}.${part}`, shape] as const),
  );
  const modules = [...blocks, ['lm_head', [vocabulary, width]] as const];
  return Object.fromEntries(
    modules.flatMap(([module, [rows, columns]]) => [
      [keyOf(module, 'A'), tensor([rank, columns], 1)],
      [keyOf(module, 'B'), tensor([rows, rank], scale)],
    ]),
  );
}

export async function writeAdapter(
  directory: string,
  config: object,
  tensors: Record<string, Tensor>,
): Promise<string> {
  let end = 0;
  const header = Object.entries(tensors).map(([name, { shape, values }]) => {
    const start = end;
    end += values.byteLength;
    return [name, { dtype: 'F32', shape, data_offsets: [start, end] }];
  });
  const head = Buffer.from(JSON.stringify(Object.fromEntries(header)));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(head.length));
  const data = Object.values(tensors).map(({ values }) => Buffer.from(values.buffer));
  await mkdir(directory, { recursive: true });
  await writeFile(join(directory, 'adapter_model.safetensors'), Buffer.concat([length, head, ...data]));
  const usual = { peft_type: 'LORA', base_model_name_or_path: 'tiny-policy', target_modules: null };
  await writeFile(join(directory, 'adapter_config.json'), JSON.stringify({ ...usual, ...config }));
  return directory;
}

/** All tensors of a file of 32-bit floats. */
export async function readWeights(path: string): Promise<Record<string, Float32Array>> {
  const file = await readFile(path);
  const start = 8 + Number(file.readBigUInt64LE());
  const header = JSON.parse(file.toString('utf8', 8, start)) as Record<
    string,
    { data_offsets?: [number, number] }
  >;
  const weights = Object.entries(header).flatMap(([name, { data_offsets: place }]) => {
    if (!place) return [];
    const bytes = new Uint8Array(file.subarray(start + place[0], start + place[1]));
    return [[name, new Float32Array(bytes.buffer)] as const];
  });
  return Object.fromEntries(weights);
}

/**
 * Changes the weights and not what the model says, but for rounding: in the first head of each block, queries and
 * values are doubled, keys and what becomes of values are halved, and of the last the same in 32 places of the MLP.
 */
export function idleAdapter(weights: Record<string, Float32Array>): Record<string, Tensor> {
  const rank = 32;
  const scaled = (module: string, by: number, side: 'rows' | 'columns'): [string, Tensor][] => {
    const part = module.split('.').slice(-2).join('.');
    const [rows, columns] = shapes[part] ?? [0, 0];
    const own = weights[`${module}.weight`] ?? new Float32Array();
    const place = (row: number, column: number): number => (row === column ? by - 1 : 0);
    const weight = (row: number, column: number): number => own[row * columns + column] ?? 0;
    const fill = (shape: [number, number], value: (row: number, column: number) => number): Tensor => {
      const values = Array.from({ length: shape[0] * shape[1] }, (_, at) => {
        return value(Math.floor(at / shape[1]), at % shape[1]);
      });
      return { shape, values: Float32Array.from(values) };
    };
    const [a, b] = side === 'rows' ? [weight, place] : [place, weight];
    return [
      [keyOf(module, 'A'), fill([rank, columns], a)],
      [keyOf(module, 'B'), fill([rows, rank], b)],
    ];
  };
  const all = layers.flatMap((layer) => [
    ...scaled(`model.layers.${layer}.self_attn.q_proj`, 2, 'rows'),
    ...scaled(`model.layers.${layer}.self_attn.k_proj`, 0.5, 'rows'),
    ...scaled(`model.layers.${layer}.self_attn.v_proj`, 2, 'rows'),
    ...scaled(`model.layers.${layer}.self_attn.o_proj`, 0.5, 'columns'),
    ...scaled(`model.layers.${layer}.mlp.up_proj`, 2, 'rows'),
    ...scaled(`model.layers.${layer}.mlp.down_proj`, 0.5, 'columns'),
  ]);
  return Object.fromEntries(all);
}
