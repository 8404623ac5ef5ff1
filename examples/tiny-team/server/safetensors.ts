/** Reads a safetensors file: 8 bytes of length, a JSON header of that length, then the tensors' bytes. */
import { badAdapter } from './request-error.ts';

export interface Matrix {
  rows: number;
  columns: number;
  /** Row by row. */
  values: Float32Array;
}

type Numbers = (bytes: ArrayBuffer) => Iterable<number> & { readonly length: number };

/** How many bytes a number takes, and what reads it. Both formats here are little-endian, as the machines are. */
const formats: Record<string, { width: number; numbers: Numbers }> = {
  F32: { width: 4, numbers: (bytes) => new Float32Array(bytes) },
  F16: { width: 2, numbers: (bytes) => new Float16Array(bytes) },
  BF16: { width: 2, numbers: (bytes) => bfloat16(new Uint16Array(bytes)) },
};

export function readMatrices(file: Uint8Array): Map<string, Matrix> {
  const { header, body } = split(file);
  const tensors = Object.entries(header).filter(([name]) => name !== '__metadata__');
  return new Map(tensors.map(([name, place]) => [name, matrix(name, place, body)]));
}

function split(file: Uint8Array): { header: object; body: Uint8Array } {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const length = file.length < 8 ? Infinity : Number(view.getBigUint64(0, true));
  if (8 + length > file.length) throw badAdapter('the tensor file is cut off in its header');
  try {
    const header: unknown = JSON.parse(new TextDecoder().decode(file.subarray(8, 8 + length)));
    if (typeof header === 'object' && header !== null) return { header, body: file.subarray(8 + length) };
  } catch {
    // Said below, as of a header that is JSON but no object.
  }
  throw badAdapter('the header of the tensor file is not a JSON object');
}

function matrix(name: string, place: unknown, body: Uint8Array): Matrix {
  const { dtype, shape, data_offsets: offsets } = (place ?? {}) as Record<string, unknown>;
  const format = formats[String(dtype)];
  if (!format) throw badAdapter(`${name} is of type ${String(dtype)}; expected F32, F16 or BF16`);
  if (!isPair(shape)) throw badAdapter(`${name} has shape ${JSON.stringify(shape)}; expected a matrix`);
  const [rows, columns] = shape;
  const bytes = rows * columns * format.width;
  if (!isPair(offsets) || offsets[1] > body.length || offsets[1] - offsets[0] !== bytes) {
    const expected = `${bytes} of the ${body.length} bytes`;
    throw badAdapter(`${name} lies at ${JSON.stringify(offsets)}; expected ${expected}`);
  }
  const own = new Uint8Array(body.subarray(...offsets));
  const values = Float32Array.from(format.numbers(own.buffer));
  if (!values.every(Number.isFinite)) throw badAdapter(`${name} holds a number that is not finite`);
  return { rows, columns, values };
}

function isPair(value: unknown): value is [number, number] {
  const isCount = (each: unknown): boolean => Number.isSafeInteger(each) && Number(each) >= 0;
  return Array.isArray(value) && value.length === 2 && value.every(isCount);
}

/** The upper halves of 32-bit floats. */
function bfloat16(halves: Uint16Array): Float32Array {
  return new Float32Array(Uint32Array.from(halves, (half) => half << 16).buffer);
}
