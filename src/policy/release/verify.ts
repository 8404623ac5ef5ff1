/**
 * Checks an adapter before a fleet sees it: what an engine refuses late, loads wrongly or serves without a word. An
 * adapter is a folder in the PEFT format, `adapter_config.json` and `adapter_model.safetensors`.
 */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open, readFile, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import Type, { type Static } from 'typebox';
import Value from 'typebox/value';
import { ConsortError } from '../../contract/errors.ts';
import { FormatError, readTensors, scanTensor, type Tensor } from './safetensors.ts';

const CONFIG = 'adapter_config.json';
const WEIGHTS = 'adapter_model.safetensors';

const Nothing = Type.Union([Type.Null(), Type.Literal(false), Type.Array(Type.Unknown(), { maxItems: 0 })]);
/** Features that serving engines lack must be off. */
const AdapterConfig = Type.Object({
  peft_type: Type.Literal('LORA'),
  r: Type.Integer({ minimum: 1 }),
  lora_alpha: Type.Number({ exclusiveMinimum: 0 }),
  target_modules: Type.Union([Type.String(), Type.Array(Type.String(), { minItems: 1 })]),
  base_model_name_or_path: Type.Optional(Type.Union([Type.String(), Type.Null()])),
  bias: Type.Optional(Type.Literal('none')),
  use_dora: Type.Optional(Nothing),
  modules_to_save: Type.Optional(Nothing),
});
type AdapterConfig = Static<typeof AdapterConfig>;

export interface AdapterExpectation {
  /** Digest under which it was exported, as {@link digestOf} makes it. */
  readonly sha256: string;
  /** The fleet's --max-lora-rank. */
  readonly maxRank: number;
  /** Name of the base model; left out when trainer and fleet call it differently. */
  readonly base?: string;
}

export interface VerifiedAdapter {
  readonly sha256: string;
  readonly rank: number;
  readonly alpha: number;
  readonly dtype: Tensor['dtype'];
  readonly modules: number;
  readonly parameters: number;
}

/**
 * Digest of an adapter's two files: that of the lines that `sha256sum adapter_config.json adapter_model.safetensors`
 * prints in its folder.
 */
export async function digestOf(directory: string): Promise<string> {
  const digest = createHash('sha256');
  for (const name of [CONFIG, WEIGHTS]) {
    const hash = createHash('sha256');
    const bytes = createReadStream(join(directory, name)) as AsyncIterable<Buffer>;
    try {
      for await (const chunk of bytes) hash.update(chunk);
    } catch (error) {
      throw invalid(directory, `${name} cannot be read: ${messageOf(error)}`, error);
    }
    digest.update(`${hash.digest('hex')}  ${name}\n`);
  }
  return digest.digest('hex');
}

/** @throws `artifact_invalid` with the first thing that is wrong */
export async function verifyAdapter(
  directory: string,
  expected: AdapterExpectation,
): Promise<VerifiedAdapter> {
  const sha256 = await digestOf(directory);
  if (sha256 !== expected.sha256) {
    throw invalid(directory, `its digest is ${sha256}, and ${expected.sha256} was exported`);
  }
  const config = await readConfig(directory);
  const { r: rank, lora_alpha: alpha } = config;
  if (rank > expected.maxRank) {
    throw invalid(directory, `its rank is ${rank}, and the fleet takes at most ${expected.maxRank}`);
  }
  const base = config.base_model_name_or_path;
  if (expected.base !== undefined && base !== expected.base) {
    throw invalid(directory, `it was trained over ${base ?? 'no named model'}, not over ${expected.base}`);
  }
  const file = await open(join(directory, WEIGHTS));
  try {
    return { sha256, rank, alpha, ...(await checkWeights(file, config)) };
  } catch (error) {
    if (error instanceof FormatError) throw invalid(directory, error.message, error);
    throw error;
  } finally {
    await file.close();
  }
}

async function readConfig(directory: string): Promise<AdapterConfig> {
  let value: unknown;
  try {
    value = JSON.parse(await readFile(join(directory, CONFIG), 'utf8'));
  } catch (error) {
    throw invalid(directory, `${CONFIG} is not JSON: ${messageOf(error)}`, error);
  }
  if (Value.Check(AdapterConfig, value)) return value;
  const [error] = Value.Errors(AdapterConfig, value);
  throw invalid(directory, `${CONFIG}: ${error?.instancePath ?? ''} ${error?.message ?? 'is not valid'}`);
}

/** Tensor names in the PEFT format; the middle is the module's path in the base model. */
const NAME = /^base_model\.model\.(?<module>.+)\.lora_(?<half>[AB])(?:\.[^.]+)?\.weight$/;

async function checkWeights(file: FileHandle, config: AdapterConfig) {
  const tensors = await readTensors(file);
  const [first] = tensors;
  if (!first) throw new FormatError('it has no tensors');
  const halves = { A: new Set<string>(), B: new Set<string>() };
  let isTrained = false;
  for (const tensor of tensors) {
    const { module, half } = placeOf(tensor, config);
    if (tensor.dtype !== first.dtype) throw new FormatError(`it mixes ${first.dtype} and ${tensor.dtype}`);
    if (halves[half].has(module)) throw new FormatError(`it has two lora_${half} of ${module}`);
    halves[half].add(module);
    const { isFinite, isZero } = await scanTensor(file, tensor);
    if (!isFinite) throw new FormatError(`tensor ${tensor.name} holds an infinity or a NaN`);
    if (half === 'B' && !isZero) isTrained = true;
  }
  const alone = [...halves.A.symmetricDifference(halves.B)][0];
  if (alone !== undefined) throw new FormatError(`${alone} has only one half`);
  if (!isTrained) throw new FormatError('every lora_B is zero: it changes nothing');
  const parameters = tensors.reduce(
    (sum, { shape }) => sum + shape.reduce((product, size) => product * size, 1),
    0,
  );
  return { dtype: first.dtype, modules: halves.A.size, parameters };
}

/** The module and the half of a tensor whose name, shape and rank are right. @throws FormatError */
function placeOf({ name, shape }: Tensor, { r, target_modules: targets }: AdapterConfig) {
  const { module, half } = NAME.exec(name)?.groups ?? {};
  if (module === undefined) throw new FormatError(`tensor ${name} is no half of a LoRA module`);
  const isA = half === 'A';
  const rank = isA ? shape[0] : shape[1];
  if (shape.length !== 2 || rank !== r) {
    throw new FormatError(`tensor ${name} has shape [${shape.join(', ')}], and the rank is ${r}`);
  }
  const isTarget = (target: string) => module === target || module.endsWith(`.${target}`);
  if (typeof targets !== 'string' && !targets.some(isTarget)) {
    throw new FormatError(`${module} is not among the target_modules`);
  }
  return { module, half: isA ? ('A' as const) : ('B' as const) };
}

function invalid(directory: string, problem: string, cause?: unknown): ConsortError {
  return new ConsortError('artifact_invalid', [directory, problem], cause === undefined ? {} : { cause });
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
