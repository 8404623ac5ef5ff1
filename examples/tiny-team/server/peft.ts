/** Reads a LoRA adapter in the two files that PEFT writes, and fits its layers to those of a base model. */
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { isFields, type Fields } from './chat-request.ts';
import { interleaved, type Layer } from './lora-gguf.ts';
import { badAdapter, RequestError } from './request-error.ts';
import { readMatrices, type Matrix } from './safetensors.ts';
import type { TinyModel } from './tiny-model.ts';

export interface Adapter {
  /** What it says that it was trained on. */
  base: string;
  rank: number;
  alpha: number;
  modules: string[] | undefined;
  matrices: ReadonlyMap<string, Matrix>;
}

const largestRank = 64;
const largestFile = 16 * 1024 * 1024;
const configFile = 'adapter_config.json';
const tensorFile = 'adapter_model.safetensors';

/** llama.cpp's names of the modules that an adapter may change. */
const targets: Record<string, string> = {
  'self_attn.q_proj': 'attn_q',
  'self_attn.k_proj': 'attn_k',
  'self_attn.v_proj': 'attn_v',
  'self_attn.o_proj': 'attn_output',
  'mlp.gate_proj': 'ffn_gate',
  'mlp.up_proj': 'ffn_up',
  'mlp.down_proj': 'ffn_down',
};

export async function readAdapter(directory: string): Promise<Adapter> {
  const config = configOf(await read(directory, configFile));
  return { ...config, matrices: readMatrices(await read(directory, tensorFile)) };
}

async function read(directory: string, name: string): Promise<Buffer> {
  const path = join(directory, name);
  let file;
  try {
    file = await open(path);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new RequestError(404, 'adapter_not_found', `lora_path holds no ${name}: ${reason}`, 'lora_path');
  }
  await using opened = file;
  const stat = await opened.stat();
  if (stat.isFile() && stat.size <= largestFile) return await opened.readFile();
  throw badAdapter(`${path} is no file of at most ${largestFile} bytes`);
}

function configOf(text: Buffer): Omit<Adapter, 'matrices'> {
  const config = fieldsOf(text);
  const { r: rank, lora_alpha: alpha, target_modules: modules, base_model_name_or_path: base } = config;
  expect(config, 'peft_type', (value) => (value ?? 'LORA') === 'LORA', '"LORA"');
  expect(config, 'r', (value) => Number.isSafeInteger(value) && Number(value) >= 1, 'a whole number');
  expect(config, 'r', (value) => Number(value) <= largestRank, `a rank of at most ${largestRank}`);
  expect(config, 'lora_alpha', (value) => Number.isFinite(value) && Number(value) > 0, 'a number above 0');
  expect(config, 'target_modules', isModules, 'null, a text or a list of names');
  expect(config, 'bias', (value) => (value ?? 'none') === 'none', '"none"');
  for (const unknown of ['use_dora', 'lora_bias', 'fan_in_fan_out', 'modules_to_save'].concat(patterns)) {
    expect(config, unknown, isEmpty, 'nothing: this server does not know it');
  }
  // llama.cpp divides by the rank; a rank-stabilised adapter means its square root.
  const factor = config['use_rslora'] === true ? Math.sqrt(Number(rank)) : 1;
  return {
    base: typeof base === 'string' ? base : '',
    rank: Number(rank),
    alpha: Number(alpha) * factor,
    modules: Array.isArray(modules) ? modules.map(String) : undefined,
  };
}

const patterns = ['rank_pattern', 'alpha_pattern', 'layer_replication', 'target_parameters'];

function fieldsOf(text: Buffer): Fields {
  try {
    const config: unknown = JSON.parse(text.toString());
    if (isFields(config)) return config;
  } catch {
    // Said below, as of JSON that is no object.
  }
  throw badAdapter(`${configFile} is not a JSON object`);
}

function expect(config: Fields, field: string, fits: (value: unknown) => boolean, expected: string): void {
  const value = config[field];
  if (fits(value)) return;
  const shown = JSON.stringify(value)?.slice(0, 80) ?? 'missing';
  throw badAdapter(`${field} in ${configFile} is ${shown}; expected ${expected}`);
}

function isModules(value: unknown): boolean {
  if (Array.isArray(value)) return value.every((each) => typeof each === 'string');
  return value === undefined || value === null || typeof value === 'string';
}

function isEmpty(value: unknown): boolean {
  if (typeof value === 'object' && value !== null) return Object.keys(value).length === 0;
  return value === undefined || value === null || value === false;
}

/** Every layer that the adapter changes, as llama.cpp names and orders it. */
export function layersOf({ rank, modules, matrices }: Adapter, base: TinyModel): Layer[] {
  const layers = new Map<string, { a?: Matrix; b?: Matrix }>();
  for (const [name, matrix] of matrices) {
    const { module, target, side } = placeOf(name);
    if (modules && !modules.some((each) => module === each || module.endsWith(`.${each}`))) {
      throw badAdapter(`${name} is of a module that target_modules in ${configFile} does not name`);
    }
    layers.set(target, { ...layers.get(target), [side]: matrix });
  }
  if (layers.size === 0) throw badAdapter(`${tensorFile} holds no tensor`);
  return [...layers].map(([target, { a, b }]) => {
    if (!a || !b) throw badAdapter(`${target} has only one of lora_A and lora_B`);
    return fitted({ target, a, b }, rank, base);
  });
}

function placeOf(name: string): { module: string; target: string; side: 'a' | 'b' } {
  const key = /^base_model\.model\.(?<module>.+)\.lora_(?<side>[AB])\.weight$/.exec(name);
  const { module = '', side } = key?.groups ?? {};
  const inBlock = /^model\.layers\.(?<layer>\d+)\.(?<part>.+)$/.exec(module)?.groups;
  const part = targets[inBlock?.['part'] ?? ''];
  const target = module === 'lm_head' ? 'output' : part && `blk.${inBlock?.['layer']}.${part}`;
  if (!target) throw badAdapter(`${name} is of no linear layer that this server knows`);
  return { module, target: `${target}.weight`, side: side === 'A' ? 'a' : 'b' };
}

function fitted({ target, a, b }: Layer, rank: number, base: TinyModel): Layer {
  const own = base.shapes.get(target);
  if (!own) throw badAdapter(`${base.id} has no ${target}`);
  if (a.rows !== rank || b.columns !== rank || a.columns !== own.columns || b.rows !== own.rows) {
    const found = `${a.rows}×${a.columns} and ${b.rows}×${b.columns}`;
    const expected = `${rank}×${own.columns} and ${own.rows}×${rank}`;
    throw badAdapter(`lora_A and lora_B of ${target} are ${found}; expected ${expected} for ${base.id}`);
  }
  if (target.includes('attn_q')) return { target, a, b: interleaved(b, base.heads.q) };
  if (target.includes('attn_k')) return { target, a, b: interleaved(b, base.heads.k) };
  return { target, a, b };
}
