/**
 * Whether a directory is an adapter that vLLM will load and that says something: PEFT's two files, with keys, shapes,
 * rank and finite numbers, and not the zero adapter. vLLM serves the base model in silence when the modules of an
 * adapter do not match, so the modules are written out where the trainer left them open.
 */
import { open, readFile, writeFile, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { ConsortError } from '../../contract/errors.ts';
import { AdapterConfig, Reader, TensorHeader } from './wire.ts';

const CONFIG = 'adapter_config.json';
const WEIGHTS = 'adapter_model.safetensors';
const MAX_HEADER_BYTES = 16 * 1024 * 1024;
const READ_BYTES = 8 * 1024 * 1024;
const KEY = /^base_model\.model\.(?<path>.+)\.lora_(?<side>[AB])\.weight$/;
const SIZES: Readonly<Record<string, number>> = { F32: 4, F16: 2, BF16: 2 };

export interface Adapter {
  readonly rank: number;
  readonly tensors: number;
  readonly targetModules: readonly string[];
}

interface TensorPlace {
  readonly name: string;
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly start: number;
  readonly end: number;
}

const configReader = new Reader(AdapterConfig);
const headerReader = new Reader(TensorHeader);

const refused = (reason: string, cause?: unknown) =>
  new ConsortError('trainer_archive', [reason], cause === undefined ? {} : { cause });

/**
 * Checks the adapter and completes its config in place.
 *
 * @param rank that the run trains with
 * @param mayBeZero before the first step the adapter changes nothing: all of lora_B is zero
 * @throws trainer_archive
 */
export async function checkAdapter(directory: string, rank: number, mayBeZero: boolean): Promise<Adapter> {
  const config = await readConfig(join(directory, CONFIG));
  if (config.peft_type !== 'LORA') throw refused(`it is a ${config.peft_type} adapter, not LORA`);
  if (config.r !== rank) throw refused(`its rank is ${config.r}, not ${rank}`);
  const targetModules = await checkTensors(join(directory, WEIGHTS), rank, mayBeZero);
  const tensors = targetModules.tensors;
  const written = { ...config, target_modules: targetModules.modules };
  await writeFile(join(directory, CONFIG), `${JSON.stringify(written, null, 2)}\n`);
  return { rank, tensors, targetModules: targetModules.modules };
}

async function readConfig(path: string): Promise<AdapterConfig> {
  try {
    return configReader.read(JSON.parse(await readFile(path, 'utf8')), CONFIG);
  } catch (error) {
    throw refused(`${CONFIG}: ${error instanceof Error ? error.message : String(error)}`, error);
  }
}

async function checkTensors(path: string, rank: number, mayBeZero: boolean) {
  await using file = await open(path, 'r').catch((error: unknown) => {
    throw refused(`there is no ${WEIGHTS}`, error);
  });
  const places = await readHeader(file);
  const sides = new Map<string, Set<string>>();
  let hasEffect = false;
  for (const place of places) {
    const { path: module = '', side = '' } = KEY.exec(place.name)?.groups ?? {};
    if (module === '') throw refused(`the tensor ${place.name} belongs to no LoRA layer`);
    checkShape(place, side, rank);
    sides.set(module, (sides.get(module) ?? new Set<string>()).add(side));
    const isZero = await checkNumbers(file, place);
    if (side === 'B' && !isZero) hasEffect = true;
  }
  const half = [...sides].find(([, both]) => both.size !== 2);
  if (half) throw refused(`${half[0]} has only one of lora_A and lora_B`);
  if (sides.size === 0) throw refused('it holds no tensor');
  if (!hasEffect && !mayBeZero) throw refused('all of lora_B is zero: it would serve the base model');
  const modules = [...new Set([...sides.keys()].map((module) => module.split('.').at(-1) ?? module))];
  return { tensors: places.length, modules: modules.toSorted() };
}

function checkShape({ name, shape }: TensorPlace, side: string, rank: number): void {
  const found = side === 'A' ? shape[0] : shape[1];
  if (shape.length !== 2 || found !== rank)
    throw refused(`${name} has shape ${shape.join('×')} at rank ${rank}`);
}

/** The safetensors header: 8 bytes of length, then JSON; offsets count from its end. */
async function readHeader(file: FileHandle): Promise<TensorPlace[]> {
  const { size } = await file.stat();
  const length = Buffer.alloc(8);
  await file.read(length, 0, 8, 0);
  const bytes = Number(length.readBigUInt64LE());
  if (bytes > MAX_HEADER_BYTES || 8 + bytes > size)
    throw refused(`${WEIGHTS} has a header of ${bytes} bytes`);
  const text = Buffer.alloc(bytes);
  await file.read(text, 0, bytes, 8);
  let header: TensorHeader;
  try {
    header = headerReader.read(JSON.parse(text.toString('utf8')), WEIGHTS);
  } catch (error) {
    throw refused(`the header of ${WEIGHTS} cannot be read`, error);
  }
  return Object.entries(header).flatMap(([name, tensor]) => {
    if (name === '__metadata__' || !('data_offsets' in tensor) || !Array.isArray(tensor.data_offsets))
      return [];
    const { dtype, shape, data_offsets: offsets } = tensor as Exclude<typeof tensor, Record<string, string>>;
    const [start, end] = offsets;
    const count = shape.reduce((product, side) => product * side, 1);
    const isWhole = end - start === count * (SIZES[dtype] ?? NaN) && 8 + bytes + end <= size;
    if (!isWhole) throw refused(`${name} (${dtype}) does not fill its place in ${WEIGHTS}`);
    return [{ name, dtype, shape, start: 8 + bytes + start, end: 8 + bytes + end }];
  });
}

/** Whether all are zero. @throws trainer_archive when one is not finite */
async function checkNumbers(file: FileHandle, { name, dtype, start, end }: TensorPlace): Promise<boolean> {
  let isZero = true;
  const buffer = Buffer.alloc(Math.min(READ_BYTES, Math.max(1, end - start)));
  for (let at = start; at < end;) {
    const { bytesRead } = await file.read(buffer, 0, Math.min(buffer.length, end - at), at);
    if (bytesRead === 0) throw refused(`${WEIGHTS} is cut off in ${name}`);
    at += bytesRead;
    const found = scan(buffer.subarray(0, bytesRead), dtype);
    if (found === 'odd') throw refused(`${name} holds what is not finite`);
    if (found === 'some') isZero = false;
  }
  return isZero;
}

/** By bits: an exponent of ones is ±∞ or NaN; anything but the sign bit is a number that is not zero. */
function scan(bytes: Buffer, dtype: string): 'zero' | 'some' | 'odd' {
  const [width, exponent] = dtype === 'F32' ? [4, 0x7f80_0000] : [2, dtype === 'BF16' ? 0x7f80 : 0x7c00];
  const magnitude = width === 4 ? 0x7fff_ffff : 0x7fff;
  let isZero = true;
  for (let at = 0; at + width <= bytes.length; at += width) {
    const word = width === 4 ? bytes.readUInt32LE(at) : bytes.readUInt16LE(at);
    if ((word & exponent) >>> 0 === exponent) return 'odd';
    if ((word & magnitude) !== 0) isZero = false;
  }
  return isZero ? 'zero' : 'some';
}
