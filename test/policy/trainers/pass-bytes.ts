/** The server's side of the protobuf of a pass: reads the request, writes the reply. */
import { fieldsOf, MessageWriter } from '../../../src/policy/trainers/protobuf.ts';

export interface PassDatum {
  readonly model_input: { readonly chunks: readonly [{ readonly tokens: readonly number[] }] };
  readonly loss_fn_inputs: Readonly<Record<string, { readonly data: readonly number[] }>>;
}

/** A request for a pass, as JSON has it. */
export interface PassBody extends Record<string, unknown> {
  readonly forward_only?: boolean;
  readonly forward_backward_input?: { readonly data: readonly PassDatum[] };
  readonly forward_input?: { readonly data: readonly PassDatum[] };
}

const FLOAT32 = 1;

export function readPass(message: Buffer): PassBody {
  const body = { model_id: '', seq_id: 0, forward_only: false };
  const data: PassDatum[] = [];
  for (const { number, integer, bytes } of fieldsOf(message)) {
    if (number === 1) body.model_id = bytes.toString('utf8');
    if (number === 2) body.seq_id = integer;
    if (number === 3) data.push(readDatum(bytes));
    if (number === 6) body.forward_only = integer === 1;
  }
  return { ...body, forward_backward_input: { data } };
}

function readDatum(message: Buffer): PassDatum {
  let tokens: number[] = [];
  const inputs: Record<string, { data: number[] }> = {};
  for (const { number, bytes } of fieldsOf(message)) {
    if (number === 1) {
      const [chunk] = [...fieldsOf(bytes)];
      const [encoded] = [...fieldsOf(chunk?.bytes ?? Buffer.alloc(0))];
      const packed = encoded?.bytes ?? Buffer.alloc(0);
      tokens = Array.from({ length: packed.length / 4 }, (_, index) => packed.readInt32LE(index * 4));
    } else {
      const [key, value] = [...fieldsOf(bytes)];
      inputs[key?.bytes.toString('utf8') ?? ''] = { data: readTensor(value?.bytes ?? Buffer.alloc(0)) };
    }
  }
  return { model_input: { chunks: [{ tokens }] }, loss_fn_inputs: inputs };
}

function readTensor(message: Buffer): number[] {
  const fields = [...fieldsOf(message)];
  const dense = fields.find(({ number }) => number === 1)?.bytes ?? Buffer.alloc(0);
  const isFloat = fields.find(({ number }) => number === 3)?.integer === FLOAT32;
  const width = isFloat ? 4 : 8;
  return Array.from({ length: dense.length / width }, (_, index) =>
    isFloat ? dense.readFloatLE(index * 4) : Number(dense.readBigInt64LE(index * 8)),
  );
}

export function writePassed(outputs: readonly { logprobs: number[]; losses: number[] }[]): Buffer {
  const record = new MessageWriter();
  const field = (name: string, rows: number[][]) => {
    const offsets = [0];
    for (const row of rows) offsets.push((offsets.at(-1) ?? 0) + row.length * 4);
    const tensor = new MessageWriter()
      .bytes(1, Buffer.from(Float32Array.from(rows.flat()).buffer))
      .bytes(2, Buffer.from(BigInt64Array.from(offsets, BigInt).buffer))
      .integer(3, FLOAT32);
    record.message(2, new MessageWriter().text(1, name).message(2, tensor));
  };
  field(
    'logprobs',
    outputs.map(({ logprobs }) => logprobs),
  );
  field(
    'elementwise_loss',
    outputs.map(({ losses }) => losses),
  );
  record.integer(3, outputs.length);
  return new MessageWriter().text(1, 'scalar').message(2, record).finish();
}
