/** Archives and adapters as bytes, good and bad. */
import { gzipSync } from 'node:zlib';

export interface TarFile {
  readonly path: string;
  readonly body?: Buffer;
  /** The tar format's letter: 0 file, 1 link, 2 symbolic link, 3 device, 5 folder. */
  readonly type?: '0' | '1' | '2' | '3' | '5';
  readonly link?: string;
}

/** A ustar archive (POSIX.1-1988). */
export function tarOf(files: readonly TarFile[]): Buffer {
  const blocks = files.flatMap(({ path, body = Buffer.alloc(0), type = '0', link = '' }) => {
    const header = Buffer.alloc(512);
    header.write(path, 0, 100);
    header.write('0000644\0', 100);
    header.write('0000000\0', 108);
    header.write('0000000\0', 116);
    header.write(`${body.length.toString(8).padStart(11, '0')}\0`, 124);
    header.write('00000000000\0', 136);
    header.write('        ', 148);
    header.write(type, 156);
    header.write(link, 157, 100);
    header.write('ustar\x0000', 257);
    const sum = header.reduce((total, byte) => total + byte, 0);
    header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148);
    return [header, body, Buffer.alloc((512 - (body.length % 512)) % 512)];
  });
  return Buffer.concat([...blocks, Buffer.alloc(1024)]);
}

export interface TensorBytes {
  readonly shape: readonly number[];
  readonly values: readonly number[];
}

/** A safetensors file of float32. */
export function safetensorsOf(tensors: Readonly<Record<string, TensorBytes>>): Buffer {
  const header: Record<string, unknown> = { __metadata__: { format: 'pt' } };
  const parts: Buffer[] = [];
  let at = 0;
  for (const [name, { shape, values }] of Object.entries(tensors)) {
    const floats = Buffer.from(Float32Array.from(values).buffer);
    header[name] = { dtype: 'F32', shape, data_offsets: [at, at + floats.length] };
    at += floats.length;
    parts.push(floats);
  }
  const text = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  return Buffer.concat([length, text, ...parts]);
}

const LAYER = 'base_model.model.model.layers.0.self_attn.q_proj';

export const adapterConfig = (changes: object = {}): Buffer =>
  Buffer.from(
    JSON.stringify({
      peft_type: 'LORA',
      r: 2,
      lora_alpha: 32,
      target_modules: null,
      bias: 'none',
      ...changes,
    }),
  );

/** One layer of rank 2 whose lora_B holds `values`. */
export const adapterWeights = (values: readonly number[], name = LAYER): Buffer =>
  safetensorsOf({
    [`${name}.lora_A.weight`]: { shape: [2, 3], values: [1, 2, 3, 4, 5, 6] },
    [`${name}.lora_B.weight`]: { shape: [2, 2], values },
  });

export const adapterFiles = (values: readonly number[]): TarFile[] => [
  { path: '/', type: '5' },
  { path: 'adapter_config.json', body: adapterConfig() },
  { path: 'adapter_model.safetensors', body: adapterWeights(values) },
];

/** As SkyRL's JAX backend packs one. */
export const adapterArchive = (values: readonly number[]): Buffer => gzipSync(tarOf(adapterFiles(values)));
