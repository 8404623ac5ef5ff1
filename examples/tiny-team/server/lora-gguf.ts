/** Writes a LoRA adapter as llama.cpp reads it: GGUF version 3, 32-bit floats, llama.cpp's tensor names. */
import type { Matrix } from './safetensors.ts';

/** `b`·`a`·`alpha`/rank is added to the base's matrix of this name. */
export interface Layer {
  target: string;
  a: Matrix;
  b: Matrix;
}

const float32 = 6;
const string = 8;
const alignment = 32;

export function loraGguf(alpha: number, layers: readonly Layer[]): Buffer {
  const tensors = layers.flatMap(({ target, a, b }) => [
    { name: `${target}.lora_a`, matrix: a },
    { name: `${target}.lora_b`, matrix: b },
  ]);
  const metadata = [
    [text('general.architecture'), uint32(string), text('llama')],
    [text('general.type'), uint32(string), text('adapter')],
    [text('adapter.type'), uint32(string), text('lora')],
    [text('adapter.lora.alpha'), uint32(float32), bytesOf(Float32Array.of(alpha))],
  ];
  const data = tensors.map(({ matrix }) => padded(bytesOf(matrix.values)));
  let offset = 0;
  const index = tensors.map(({ name, matrix: { rows, columns } }, at) => {
    const start = offset;
    offset += data[at]?.length ?? 0;
    // A matrix has its columns first; 0 is the type of 32-bit floats in a tensor.
    return [text(name), uint32(2), uint64(columns), uint64(rows), uint32(0), uint64(start)];
  });
  const counts = [uint64(tensors.length), uint64(metadata.length)];
  const head = [Buffer.from('GGUF'), uint32(3), ...counts, ...metadata.flat(), ...index.flat()];
  return Buffer.concat([padded(Buffer.concat(head)), ...data]);
}

/** llama.cpp rotates neighbouring pairs, Hugging Face rotates halves: reorders the rows of each head. */
export function interleaved({ rows, columns, values }: Matrix, heads: number): Matrix {
  const half = rows / heads / 2;
  const reordered = new Float32Array(values.length);
  for (let row = 0; row < rows; row += 1) {
    const head = Math.floor(row / (2 * half));
    const place = row % (2 * half);
    const target = 2 * half * head + 2 * (place % half) + Math.floor(place / half);
    reordered.set(values.subarray(row * columns, (row + 1) * columns), target * columns);
  }
  return { rows, columns, values: reordered };
}

function text(value: string): Buffer {
  const data = Buffer.from(value);
  return Buffer.concat([uint64(data.length), data]);
}

function uint32(value: number): Buffer {
  return bytesOf(Uint32Array.of(value));
}

function uint64(value: number): Buffer {
  return bytesOf(BigUint64Array.of(BigInt(value)));
}

function bytesOf({ buffer, byteOffset, byteLength }: NodeJS.TypedArray): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}

function padded(bytes: Buffer): Buffer {
  return Buffer.concat([bytes, Buffer.alloc(-bytes.length & (alignment - 1))]);
}
