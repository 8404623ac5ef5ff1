/**
 * Reads safetensors files: 8 bytes length (little endian), that much JSON, then the tensors without gaps. Only what a
 * check needs: the header, and one pass over the numbers.
 */
import type { FileHandle } from 'node:fs/promises';
import Type, { type Static } from 'typebox';
import Value from 'typebox/value';

/** The format allows 100 MB; adapters have some thousand tensors of a hundred bytes each. */
const MAX_HEADER_BYTES = 16 * 1024 * 1024;
const CHUNK_BYTES = 1024 * 1024;

/** Floating-point types of adapters: bytes, and the bits that are all set in infinities and NaN. */
const FLOATS = {
  F32: { bytes: 4, exponent: 0x7f80_0000, value: 0x7fff_ffff },
  F16: { bytes: 2, exponent: 0x7c00, value: 0x7fff },
  BF16: { bytes: 2, exponent: 0x7f80, value: 0x7fff },
} as const;

const Offset = Type.Integer({ minimum: 0 });
const Entry = Type.Object({
  dtype: Type.Union([Type.Literal('F32'), Type.Literal('F16'), Type.Literal('BF16')]),
  shape: Type.Array(Offset),
  data_offsets: Type.Tuple([Offset, Offset]),
});

export interface Tensor extends Pick<Static<typeof Entry>, 'dtype' | 'shape'> {
  readonly name: string;
  /** Bytes of the file. */
  readonly start: number;
  readonly end: number;
}

/** What is wrong with a file; its caller knows the path. */
export class FormatError extends Error {
  override readonly name = 'FormatError';
}

/** The tensors, in the order in which they lie. @throws FormatError */
export async function readTensors(file: FileHandle): Promise<Tensor[]> {
  const { size } = await file.stat();
  const length = size < 8 ? 0n : (await read(file, 0, 8)).readBigUInt64LE();
  if (length === 0n || length > BigInt(Math.min(MAX_HEADER_BYTES, size - 8))) {
    throw new FormatError(`its header would have ${length} bytes of ${size}`);
  }
  const dataStart = 8 + Number(length);
  const header = parse((await read(file, 8, Number(length))).toString('utf8'));
  const tensors = Object.entries(header)
    .filter(([name]) => name !== '__metadata__')
    .map(([name, entry]) => tensorOf(name, entry, dataStart))
    .toSorted((a, b) => a.start - b.start || a.end - b.end);
  const last = tensors.reduce((place, { name, start, end }) => {
    if (start !== place) throw new FormatError(`tensor ${name} begins at byte ${start}, not at ${place}`);
    return end;
  }, dataStart);
  if (last !== size) throw new FormatError(`its tensors end at byte ${last} of ${size}`);
  return tensors;
}

/** Whether all numbers of a tensor are finite, and whether all are zero. */
export async function scanTensor(
  file: FileHandle,
  { dtype, start, end }: Tensor,
): Promise<{ readonly isFinite: boolean; readonly isZero: boolean }> {
  const { bytes, exponent, value } = FLOATS[dtype];
  let isZero = true;
  for (let place = start; place < end; place += CHUNK_BYTES) {
    const chunk = await read(file, place, Math.min(CHUNK_BYTES, end - place));
    const numbers = bytes === 4 ? new Uint32Array(chunk.buffer) : new Uint16Array(chunk.buffer);
    for (const bits of numbers) {
      if ((bits & exponent) === exponent) return { isFinite: false, isZero: false };
      if ((bits & value) !== 0) isZero = false;
    }
  }
  return { isFinite: true, isZero };
}

/** Exactly these bytes, in memory of their own so that numbers lie aligned. */
async function read(file: FileHandle, position: number, length: number): Promise<Buffer<ArrayBuffer>> {
  const buffer = Buffer.from(new ArrayBuffer(length));
  let filled = 0;
  while (filled < length) {
    const { bytesRead } = await file.read(buffer, filled, length - filled, position + filled);
    if (bytesRead === 0) throw new FormatError('it became shorter while it was read');
    filled += bytesRead;
  }
  return buffer;
}

function parse(text: string): object {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // Said below, as for any other value.
  }
  if (typeof value !== 'object' || value === null) throw new FormatError('its header is not a JSON object');
  return value;
}

function tensorOf(name: string, entry: unknown, dataStart: number): Tensor {
  if (!Value.Check(Entry, entry)) {
    const [error] = Value.Errors(Entry, entry);
    throw new FormatError(`tensor ${name}: ${error?.instancePath ?? ''} ${error?.message ?? 'is not valid'}`);
  }
  const { dtype, shape, data_offsets: offsets } = entry;
  const [start, end] = [dataStart + offsets[0], dataStart + offsets[1]];
  const expected = shape.reduce((product, size) => product * size, FLOATS[dtype].bytes);
  if (end - start !== expected) {
    throw new FormatError(`tensor ${name} has ${end - start} bytes, and its shape makes ${expected}`);
  }
  return { name, dtype, shape, start, end };
}
