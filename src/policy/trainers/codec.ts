/**
 * How a forward-backward pass is written and read: JSON, or the protobuf of SDK 0.25 and later. SkyRL 0.4 refuses
 * JSON here (415) and answers in protobuf whatever is asked for; hatchery, TuFT and older servers know JSON only.
 * All other operations are JSON everywhere. Field numbers: `tinker_public.proto` of the PyPI package tinker 0.25.0.
 */
import { ConsortError } from '../../contract/errors.ts';
import { fieldsOf, MessageWriter } from './protobuf.ts';
import { Passed, Reader, type WireDatum } from './wire.ts';

export type CodecName = 'json' | 'protobuf';

/** A loss of the server with its settings; ratio bounds are always sent, since their defaults differ. */
export interface Loss {
  readonly name: 'importance_sampling' | 'ppo' | 'cispo' | 'cross_entropy';
  readonly config?: Readonly<Record<string, number>>;
}

export interface Pass {
  readonly modelId: string;
  readonly seq: number;
  readonly data: readonly WireDatum[];
  readonly loss: Loss;
  /** Log-probs only: no gradient is added. */
  readonly forwardOnly: boolean;
}

export interface Encoded {
  readonly path: string;
  readonly contentType: string;
  readonly body: Buffer;
}

export const PROTOBUF = 'application/x-protobuf';

export function encodePass(codec: CodecName, pass: Pass): Encoded {
  return codec === 'json' ? encodeJson(pass) : encodeProtobuf(pass);
}

function encodeJson({ modelId, seq, data, loss, forwardOnly }: Pass): Encoded {
  const input = { data, loss_fn: loss.name, ...(loss.config && { loss_fn_config: loss.config }) };
  const body = {
    model_id: modelId,
    [forwardOnly ? 'forward_input' : 'forward_backward_input']: input,
    seq_id: seq,
  };
  return {
    path: forwardOnly ? 'forward' : 'forward_backward',
    contentType: 'application/json',
    body: Buffer.from(JSON.stringify(body)),
  };
}

function encodeProtobuf({ modelId, seq, data, loss, forwardOnly }: Pass): Encoded {
  const message = new MessageWriter().text(1, modelId).integer(2, seq);
  for (const datum of data) message.message(3, datumMessage(datum));
  message.text(4, loss.name);
  for (const [key, value] of Object.entries(loss.config ?? {})) {
    message.message(5, new MessageWriter().text(1, key).double(2, value));
  }
  message.integer(6, forwardOnly ? 1 : 0);
  return { path: 'forward_backward', contentType: PROTOBUF, body: message.finish() };
}

const FLOAT32 = 1;
const INT64 = 2;

function datumMessage({ model_input, loss_fn_inputs }: WireDatum): MessageWriter {
  const datum = new MessageWriter();
  for (const { tokens } of model_input.chunks) {
    const chunk = new MessageWriter().bytes(1, bytesOf(Int32Array.from(tokens)));
    datum.message(1, new MessageWriter().message(1, chunk));
  }
  for (const [name, { data, dtype, shape }] of Object.entries(loss_fn_inputs)) {
    const dense =
      dtype === 'int64' ? bytesOf(BigInt64Array.from(data, BigInt)) : bytesOf(Float32Array.from(data));
    const tensor = new MessageWriter().bytes(1, dense).integer(3, dtype === 'int64' ? INT64 : FLOAT32);
    tensor.integer(4, shape[0]);
    datum.message(2, new MessageWriter().text(1, name).message(2, tensor));
  }
  return datum;
}

const bytesOf = ({ buffer, byteOffset, byteLength }: NodeJS.TypedArray): Buffer =>
  Buffer.from(buffer, byteOffset, byteLength);

const passedReader = new Reader(Passed);

/** The result of a pass in the one form that the rest reads. @throws trainer_malformed */
export function decodePassed(contentType: string, body: Buffer, parsed: () => unknown): Passed {
  if (!contentType.startsWith(PROTOBUF)) return passedReader.read(parsed(), 'forward_backward');
  try {
    return decodeProtobuf(body);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new ConsortError('trainer_malformed', ['forward_backward', why], { cause: error });
  }
}

/** One field of all datums of a reply, cut at byte offsets. */
interface Batched {
  readonly data: Buffer;
  readonly offsets: readonly number[];
}

function decodeProtobuf(body: Buffer): Passed {
  const metrics: Record<string, number> = {};
  const outputs: Passed['loss_fn_outputs'] = [];
  for (const { number, bytes } of fieldsOf(body)) {
    if (number === 2) outputs.push(...recordOf(bytes));
    if (number === 3) {
      const fields = [...fieldsOf(bytes)];
      const key = fields.find((field) => field.number === 1)?.bytes.toString('utf8') ?? '';
      metrics[key] = fields.find((field) => field.number === 2)?.double ?? 0;
    }
  }
  return { loss_fn_outputs: outputs, metrics };
}

function recordOf(record: Buffer): Passed['loss_fn_outputs'] {
  const fields = new Map<string, Batched>();
  let count = 0;
  for (const { number, integer, bytes } of fieldsOf(record)) {
    if (number === 3) count = integer;
    if (number !== 2) continue;
    const entry = [...fieldsOf(bytes)];
    const key = entry.find((field) => field.number === 1)?.bytes.toString('utf8') ?? '';
    fields.set(key, batchedOf(entry.find((field) => field.number === 2)?.bytes ?? Buffer.alloc(0)));
  }
  const logprobs = fields.get('logprobs');
  if (!logprobs) throw new RangeError('there are no logprobs');
  const losses = fields.get('elementwise_loss');
  return Array.from({ length: count }, (_, index) => ({
    logprobs: { data: floatsAt(logprobs, index) },
    ...(losses && { elementwise_loss: { data: floatsAt(losses, index) } }),
  }));
}

function batchedOf(tensor: Buffer): Batched {
  let data = Buffer.alloc(0);
  const offsets: number[] = [];
  for (const { number, integer, bytes } of fieldsOf(tensor)) {
    if (number === 1) data = Buffer.from(bytes);
    if (number === 2) {
      for (let at = 0; at + 8 <= bytes.length; at += 8) offsets.push(Number(bytes.readBigInt64LE(at)));
    }
    if (number === 3 && integer !== FLOAT32) throw new RangeError(`log-probs have dtype ${integer}`);
  }
  return { data, offsets };
}

function floatsAt({ data, offsets }: Batched, index: number): number[] {
  const [start, end] = [offsets[index], offsets[index + 1]];
  if (start === undefined || end === undefined || end > data.length || start > end) {
    throw new RangeError(`datum ${index} has no place in its field`);
  }
  const floats: number[] = [];
  for (let at = start; at + 4 <= end; at += 4) floats.push(data.readFloatLE(at));
  return floats;
}
