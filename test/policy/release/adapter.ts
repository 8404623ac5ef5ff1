/** Adapters on disk, right or wrong in one way. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export interface TensorSpec {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly bytes: Uint8Array;
}

export function floats(shape: readonly number[], values: (index: number) => number): TensorSpec {
  const count = shape.reduce((product, size) => product * size, 1);
  const numbers = Float32Array.from({ length: count }, (_, index) => values(index));
  return { dtype: 'F32', shape, bytes: new Uint8Array(numbers.buffer) };
}

/** 16-bit numbers, given as their bits. */
export function halves(dtype: 'F16' | 'BF16', shape: readonly number[], bits: number): TensorSpec {
  const count = shape.reduce((product, size) => product * size, 1);
  return { dtype, shape, bytes: new Uint8Array(new Uint16Array(count).fill(bits).buffer) };
}

export const CONFIG = {
  peft_type: 'LORA',
  r: 4,
  lora_alpha: 8,
  target_modules: ['q_proj', 'v_proj'],
  base_model_name_or_path: 'Qwen/Qwen3-27B',
  bias: 'none',
  use_dora: false,
  modules_to_save: null,
};

const LAYER = 'base_model.model.model.layers.0.self_attn';

/** Two modules of rank 4 whose B is not zero. */
export function goodTensors(): Record<string, TensorSpec> {
  return {
    [`${LAYER}.q_proj.lora_A.weight`]: floats([4, 16], (i) => i / 100),
    [`${LAYER}.q_proj.lora_B.weight`]: floats([32, 4], (i) => (i === 5 ? 0.25 : 0)),
    [`${LAYER}.v_proj.lora_A.weight`]: floats([4, 16], () => 0.5),
    [`${LAYER}.v_proj.lora_B.weight`]: floats([8, 4], () => 0),
  };
}

export const Q_A = `${LAYER}.q_proj.lora_A.weight`;
export const Q_B = `${LAYER}.q_proj.lora_B.weight`;
export const V_B = `${LAYER}.v_proj.lora_B.weight`;

export function safetensors(tensors: Readonly<Record<string, TensorSpec>>): Buffer {
  let place = 0;
  const header: Record<string, unknown> = { __metadata__: { format: 'pt' } };
  for (const [name, { dtype, shape, bytes }] of Object.entries(tensors)) {
    header[name] = { dtype, shape, data_offsets: [place, place + bytes.length] };
    place += bytes.length;
  }
  return fileOf(JSON.stringify(header), ...Object.values(tensors).map(({ bytes }) => bytes));
}

export function fileOf(header: string, ...data: readonly Uint8Array[]): Buffer {
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(Buffer.byteLength(header)));
  return Buffer.concat([length, Buffer.from(header), ...data]);
}

export function writeAdapter(
  directory: string,
  weights: Uint8Array = safetensors(goodTensors()),
  config: unknown = CONFIG,
): void {
  mkdirSync(directory, { recursive: true });
  writeFileSync(
    join(directory, 'adapter_config.json'),
    typeof config === 'string' ? config : JSON.stringify(config),
  );
  writeFileSync(join(directory, 'adapter_model.safetensors'), weights);
}
