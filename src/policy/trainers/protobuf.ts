/**
 * The part of the protobuf encoding (protobuf.dev/programming-guides/encoding) that the Tinker protocol's two
 * messages need: varints, doubles and length-delimited fields. Unknown fields are skipped, as the encoding asks.
 */

const VARINT = 0;
const FIXED64 = 1;
const BYTES = 2;
const FIXED32 = 5;

/** Writes one message; fields keep the order of the calls. */
export class MessageWriter {
  readonly #parts: Buffer[] = [];

  /** A non-negative integer: uint32, int32, int64, bool or enum. Zero is the default and is left out. */
  integer(field: number, value: number): this {
    if (value !== 0) this.#parts.push(varint(field * 8 + VARINT), varint(value));
    return this;
  }

  double(field: number, value: number): this {
    const bytes = Buffer.alloc(8);
    bytes.writeDoubleLE(value);
    this.#parts.push(varint(field * 8 + FIXED64), bytes);
    return this;
  }

  text(field: number, value: string): this {
    return this.bytes(field, Buffer.from(value, 'utf8'));
  }

  bytes(field: number, value: Buffer): this {
    this.#parts.push(varint(field * 8 + BYTES), varint(value.length), value);
    return this;
  }

  message(field: number, value: MessageWriter): this {
    return this.bytes(field, value.finish());
  }

  finish(): Buffer {
    return Buffer.concat(this.#parts);
  }
}

/** A field as it stands: a number for varints and doubles, bytes for the rest. */
export interface Field {
  readonly number: number;
  readonly integer: number;
  readonly double: number;
  readonly bytes: Buffer;
}

const EMPTY = Buffer.alloc(0);

/** The fields of one message in order. @throws RangeError when it is cut off or uses groups */
export function* fieldsOf(message: Buffer): Generator<Field> {
  let at = 0;
  const next = () => {
    const [value, end] = readVarint(message, at);
    at = end;
    return value;
  };
  while (at < message.length) {
    const tag = next();
    const field = { number: Math.floor(tag / 8), integer: 0, double: 0, bytes: EMPTY as Buffer };
    switch (tag % 8) {
      case VARINT:
        field.integer = next();
        break;
      case FIXED64:
        field.double = message.readDoubleLE(at);
        at += 8;
        break;
      case FIXED32:
        field.double = message.readFloatLE(at);
        at += 4;
        break;
      case BYTES: {
        const length = next();
        if (at + length > message.length) throw new RangeError('a field is cut off');
        field.bytes = message.subarray(at, at + length);
        at += length;
        break;
      }
      default:
        throw new RangeError(`wire type ${tag % 8} is not read here`);
    }
    yield field;
  }
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  let left = value;
  do {
    const low = left % 128;
    left = Math.floor(left / 128);
    bytes.push(left > 0 ? low + 128 : low);
  } while (left > 0);
  return Buffer.from(bytes);
}

function readVarint(message: Buffer, start: number): [value: number, end: number] {
  let value = 0;
  let scale = 1;
  for (let at = start; at < start + 10; at++) {
    const byte = message[at];
    if (byte === undefined) throw new RangeError('a number is cut off');
    value += (byte % 128) * scale;
    if (byte < 128) return [value, at + 1];
    scale *= 128;
  }
  throw new RangeError('a number is longer than ten bytes');
}
