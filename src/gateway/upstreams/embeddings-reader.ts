/** Reads an embeddings response: of all its numbers only the usage, for the bytes are the client's. */
import Type from 'typebox';
import { Compile } from 'typebox/compile';
import type { Answer } from '../../contract/call.ts';
import type { Usage } from '../../contract/chat.ts';
import { ConsortError } from '../../contract/errors.ts';
import type { ReaderOptions } from './chat-reader.ts';
import { errorText } from './upstream-error.ts';

const open = { additionalProperties: true };
const Embeddings = Type.Object(
  {
    data: Type.Array(Type.Unknown()),
    usage: Type.Optional(
      Type.Union([Type.Object({ prompt_tokens: Type.Optional(Type.Integer()) }, open), Type.Null()]),
    ),
  },
  open,
);

const embeddings = Compile(Embeddings);

export class EmbeddingsReader {
  readonly #options: ReaderOptions;
  #hasCome = false;
  usage: Usage = { inputTokens: 0, outputTokens: 0 };
  readonly done = false;

  constructor(options: ReaderOptions) {
    this.#options = options;
  }

  /** @throws `upstream_malformed`: a stream was never asked for */
  event(data: string): boolean {
    throw this.#malformed(data);
  }

  /** @throws `upstream_malformed` or `upstream_error` */
  body(data: string): void {
    const { alias, slot, emit, redact } = this.#options;
    const parsed = parse(data);
    if (typeof parsed === 'object' && parsed !== null && 'error' in parsed && parsed.error) {
      throw new ConsortError('upstream_error', [alias, redact(errorText(parsed.error))]);
    }
    if (!embeddings.Check(parsed)) throw this.#malformed(data);
    this.usage = { inputTokens: parsed.usage?.prompt_tokens ?? 0, outputTokens: 0 };
    this.#hasCome = true;
    emit({ type: 'usage', slot, choice: 0, usage: this.usage, raw: data });
  }

  /** @throws `upstream_truncated` when nothing has come */
  answer(): Answer {
    const { alias } = this.#options;
    if (!this.#hasCome) throw new ConsortError('upstream_truncated', [alias]);
    return { message: { text: '' }, finishReason: 'stop', usage: this.usage, from: [alias] };
  }

  #malformed(data: string): ConsortError {
    const { alias, redact } = this.#options;
    return new ConsortError('upstream_malformed', [alias, redact(data).slice(0, 200)]);
  }
}

function parse(data: string): unknown {
  try {
    return JSON.parse(data);
  } catch {
    return undefined;
  }
}
