/**
 * Reads OpenAI-compatible chat completions, whole or in chunks, into parts and one answer. Completions of a text are read
 * alike: their choices have a `text` in the place of a message.
 */
import Type, { type Static } from 'typebox';
import { Compile } from 'typebox/compile';
import type { Answer } from '../../contract/call.ts';
import type { ToolCall, Usage } from '../../contract/chat.ts';
import { ConsortError } from '../../contract/errors.ts';
import type { FinishReason, Part } from '../../contract/part.ts';
import { errorText } from './upstream-error.ts';

const open = { additionalProperties: true };
const nullable = <S extends Type.TSchema>(schema: S) => Type.Optional(Type.Union([schema, Type.Null()]));
/** What an assistant says, in a message or in a delta. Loose: providers add fields and leave out others. */
const Said = Type.Object(
  {
    content: nullable(Type.String()),
    reasoning_content: nullable(Type.String()),
    reasoning: nullable(Type.String()),
    tool_calls: nullable(
      Type.Array(
        Type.Object(
          {
            index: nullable(Type.Integer()),
            id: nullable(Type.String()),
            function: nullable(
              Type.Object({ name: nullable(Type.String()), arguments: nullable(Type.String()) }, open),
            ),
          },
          open,
        ),
      ),
    ),
  },
  open,
);
const Choice = Type.Object(
  {
    index: Type.Optional(Type.Integer({ minimum: 0 })),
    delta: nullable(Said),
    message: nullable(Said),
    text: nullable(Type.String()),
    finish_reason: nullable(Type.String()),
    logprobs: nullable(Type.Object({ content: nullable(Type.Array(Type.Unknown())) }, open)),
    token_ids: nullable(Type.Array(Type.Integer())),
  },
  open,
);
const Completion = Type.Object(
  {
    choices: nullable(Type.Array(Choice)),
    usage: nullable(
      Type.Object(
        { prompt_tokens: nullable(Type.Integer()), completion_tokens: nullable(Type.Integer()) },
        open,
      ),
    ),
    prompt_token_ids: nullable(Type.Array(Type.Integer())),
    error: Type.Optional(Type.Unknown()),
    object: nullable(Type.String()),
  },
  open,
);
type Completion = Static<typeof Completion>;
type Said = Static<typeof Said>;
type Choice = Static<typeof Choice>;
type ToolDelta = NonNullable<Said['tool_calls']>[number];

const completion = Compile(Completion);

const FINISH: Record<string, FinishReason> = {
  length: 'length',
  tool_calls: 'tool_calls',
  function_call: 'tool_calls',
  content_filter: 'content_filter',
};

export interface ReaderOptions {
  readonly alias: string;
  readonly slot: string;
  readonly emit: (part: Part) => void;
  /** Whether a stream was asked for: bytes of the other kind are not passed on as they came. */
  readonly stream: boolean;
  /** Takes secrets out of what the upstream says about a failure. */
  readonly redact: (text: string) => string;
}

interface ToolDraft {
  readonly index: number;
  id: string;
  name: string;
  arguments: string;
}

/** Collects one completion. Feed it each event's data, or the whole body, then take the answer. */
export class ChatReader {
  readonly #options: ReaderOptions;
  #text = '';
  #reasoning = '';
  readonly #tools: ToolDraft[] = [];
  /** By the upstream's tool index, the latest: some providers give parallel calls one index and different ids. */
  readonly #toolAt = new Map<number, ToolDraft>();
  readonly #logprobs: unknown[] = [];
  readonly #tokenIds: number[] = [];
  #promptTokenIds: readonly number[] | undefined;
  #usage: Usage = { inputTokens: 0, outputTokens: 0 };
  #finish: FinishReason | undefined;
  #done = false;
  #heard = false;
  /** Signs of life before the first payload: a call that fails now has not been heard, and can be made again. */
  readonly #silent: Part[] = [];
  /** What was read differs from the bytes, so they must be written anew. */
  #mended = false;

  constructor(options: ReaderOptions) {
    this.#options = options;
  }

  get usage(): Usage {
    return this.#usage;
  }

  /** The upstream has said that nothing follows. */
  get done(): boolean {
    return this.#done;
  }

  /**
   * Reads one event of a stream.
   *
   * @returns whether it carried anything but a sign of life
   * @throws `upstream_malformed` or `upstream_error`
   */
  event(data: string): boolean {
    const text = data.trim();
    if (this.#done || text === '') return false;
    if (text === '[DONE]') {
      this.#done = true;
      this.#speak();
      return true;
    }
    const { stream } = this.#options;
    return this.#read(this.#parse(data), (body) => (stream ? this.#rawOf(body, data) : undefined));
  }

  /**
   * Reads a whole response. To a client that asked for a stream it goes as one chunk.
   *
   * @throws `upstream_malformed` or `upstream_error`
   */
  body(data: string): void {
    const { stream } = this.#options;
    this.#read(this.#parse(data), (body) => (stream ? chunkOf(body) : this.#rawOf(body, data)));
  }

  /** @throws `upstream_truncated` when the completion has no end */
  answer(): Answer {
    const { alias } = this.#options;
    if (!this.#finish && !this.#done) throw new ConsortError('upstream_truncated', [alias]);
    const toolCalls: ToolCall[] = this.#tools.map(({ id, name, arguments: args }) => ({
      id,
      type: 'function',
      function: { name, arguments: args },
    }));
    return {
      message: {
        text: this.#text,
        ...(this.#reasoning !== '' && { reasoning: this.#reasoning }),
        ...(toolCalls.length > 0 && { toolCalls }),
      },
      finishReason: this.#finish ?? 'stop',
      usage: this.#usage,
      from: [alias],
      ...(this.#logprobs.length > 0 && { logprobs: this.#logprobs }),
      ...(this.#tokenIds.length > 0 && { tokenIds: this.#tokenIds }),
      ...(this.#promptTokenIds && { promptTokenIds: this.#promptTokenIds }),
    };
  }

  #parse(data: string): Completion {
    const { alias, redact } = this.#options;
    const parsed = parse(data);
    if (!completion.Check(parsed)) {
      throw new ConsortError('upstream_malformed', [alias, redact(data).slice(0, 200)]);
    }
    const failure = parsed.error ?? (parsed.object === 'error' ? parsed : undefined);
    if (failure) throw new ConsortError('upstream_error', [alias, errorText(redacted(failure, redact))]);
    return parsed;
  }

  #rawOf(body: Completion, data: string): string {
    return this.#mended ? JSON.stringify(body) : data;
  }

  /** The last part made from these bytes carries them; bytes that say nothing we read become an opaque part. */
  #read(body: Completion, rawOf: (body: Completion) => string | undefined): boolean {
    const { emit: send, slot } = this.#options;
    this.#mended = false;
    let held: Part | undefined;
    const emit = (part: Part) => {
      this.#speak();
      if (held) send(held);
      held = part;
    };
    for (const choice of body.choices ?? []) this.#choice(choice, emit);
    if (body.prompt_token_ids) this.#promptTokenIds = body.prompt_token_ids;
    if (body.usage) {
      this.#usage = {
        inputTokens: body.usage.prompt_tokens ?? 0,
        outputTokens: body.usage.completion_tokens ?? 0,
      };
      emit({ type: 'usage', slot, choice: 0, usage: this.#usage });
    }
    const raw = rawOf(body);
    const says = held !== undefined || (body.choices ?? []).some(saysSomething);
    if (says) this.#speak();
    if (held) send(raw === undefined ? held : { ...held, raw });
    else if (raw !== undefined) this.#opaque(raw);
    return says;
  }

  #opaque(raw: string): void {
    const { emit, slot } = this.#options;
    const part: Part = { type: 'opaque', slot, choice: 0, raw };
    if (this.#heard) emit(part);
    else this.#silent.push(part);
  }

  #speak(): void {
    if (this.#heard) return;
    this.#heard = true;
    for (const part of this.#silent.splice(0)) this.#options.emit(part);
  }

  #choice(choice: Choice, emit: (part: Part) => void): void {
    const { slot } = this.#options;
    const index = choice.index ?? 0;
    const content = choice.logprobs?.content;
    // Before the words that they belong to, so that whoever writes both can write them together.
    if (content?.length) {
      if (index === 0) this.#logprobs.push(...content);
      emit({ type: 'logprobs-delta', slot, choice: index, content });
    }
    const said = saidIn(choice);
    if (said) this.#said(said, index, emit);
    if (index === 0 && choice.token_ids) this.#tokenIds.push(...choice.token_ids);
    if (!choice.finish_reason) return;
    // Some providers end a turn of tool calls with `stop`, and an agent then waits for ever.
    if (index === 0 && this.#tools.length > 0 && choice.finish_reason === 'stop') {
      choice.finish_reason = 'tool_calls';
      this.#mended = true;
    }
    const reason = FINISH[choice.finish_reason] ?? 'stop';
    if (index === 0) this.#finish = reason;
    emit({ type: 'finish', slot, choice: index, reason });
  }

  #said(said: Said, choice: number, emit: (part: Part) => void): void {
    const at = { slot: this.#options.slot, choice };
    const reasoning = said.reasoning_content ?? said.reasoning;
    if (reasoning) {
      if (choice === 0) this.#reasoning += reasoning;
      emit({ type: 'reasoning-delta', ...at, text: reasoning });
    }
    if (said.content) {
      if (choice === 0) this.#text += said.content;
      emit({ type: 'text-delta', ...at, text: said.content });
    }
    for (const [position, tool] of (said.tool_calls ?? []).entries()) {
      const theirs = tool.index ?? position;
      const { id, function: called } = tool;
      // Only the first choice is collected; of the others the parts are enough.
      const index = choice === 0 ? this.#tool(theirs, id, called) : theirs;
      if (typeof tool.index === 'number' && tool.index !== index) {
        tool.index = index;
        this.#mended = true;
      }
      emit({
        type: 'tool-call-delta',
        ...at,
        index,
        ...(id && { id }),
        ...(called?.name && { name: called.name }),
        ...(called?.arguments && { arguments: called.arguments }),
      });
    }
  }

  /** Adds to the tool call that is meant, and gives its index. */
  #tool(theirs: number, id: string | null | undefined, called: ToolDelta['function']): number {
    let draft = this.#toolAt.get(theirs);
    if (!draft || (id && draft.id !== '' && draft.id !== id)) {
      draft = { index: this.#tools.length, id: '', name: '', arguments: '' };
      this.#tools.push(draft);
      this.#toolAt.set(theirs, draft);
    }
    draft.id ||= id ?? '';
    draft.name += called?.name ?? '';
    draft.arguments += called?.arguments ?? '';
    return draft.index;
  }
}

function saidIn({ delta, message, text }: Choice): Said | undefined {
  return delta ?? message ?? (typeof text === 'string' ? { content: text } : undefined);
}

/** Whether a choice has anything besides a role: fields that we do not read count, empty ones do not. */
function saysSomething(choice: Choice): boolean {
  return Object.entries(saidIn(choice) ?? {}).some(
    ([name, value]) =>
      name !== 'role' && value !== null && value !== '' && !(Array.isArray(value) && value.length === 0),
  );
}

/** A whole completion in the shape of a chunk: that of a text has it already. */
function chunkOf({ choices, ...body }: Completion): string {
  if (choices?.some(({ text }) => typeof text === 'string')) return JSON.stringify({ ...body, choices });
  const deltas = (choices ?? []).map(({ message, ...choice }) => ({
    ...choice,
    delta: { ...message, ...(message?.tool_calls && { tool_calls: message.tool_calls.map(indexed) }) },
  }));
  return JSON.stringify({ ...body, object: 'chat.completion.chunk', choices: deltas });
}

function indexed(tool: ToolDelta, index: number): ToolDelta {
  return { index, ...tool };
}

function redacted(failure: unknown, redact: (text: string) => string): unknown {
  return parse(redact(JSON.stringify(failure)));
}

function parse(data: string): unknown {
  try {
    return JSON.parse(data);
  } catch {
    return undefined;
  }
}
