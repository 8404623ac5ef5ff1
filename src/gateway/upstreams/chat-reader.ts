/** Reads OpenAI-compatible chat completions, whole or in chunks, into parts and one answer. */
import Type, { type Static } from 'typebox';
import { Compile } from 'typebox/compile';
import type { Answer } from '../../contract/call.ts';
import type { ToolCall, Usage } from '../../contract/chat.ts';
import { ConsortError } from '../../contract/errors.ts';
import type { FinishReason, Part } from '../../contract/part.ts';

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
  },
  open,
);
type Completion = Static<typeof Completion>;
type Said = Static<typeof Said>;

const completion = Compile(Completion);

const FINISH: Record<string, FinishReason> = {
  length: 'length',
  tool_calls: 'tool_calls',
  function_call: 'tool_calls',
  content_filter: 'content_filter',
};

/** The text of an `error` field, whatever its shape. */
export function errorText(error: unknown): string {
  if (typeof error === 'object' && error !== null && 'message' in error) return String(error.message);
  return typeof error === 'string' ? error : JSON.stringify(error);
}

/** Collects one completion. Feed it each event's data (or the whole body), then take the answer. */
export class ChatReader {
  readonly #alias: string;
  readonly #slot: string;
  readonly #emit: (part: Part) => void;
  #text = '';
  #reasoning = '';
  readonly #tools: { id: string; name: string; arguments: string }[] = [];
  /** Upstream's tool index → ours: some providers give parallel calls one index and different ids. */
  readonly #toolAt = new Map<number, number>();
  readonly #logprobs: unknown[] = [];
  readonly #tokenIds: number[] = [];
  #promptTokenIds: readonly number[] | undefined;
  #usage: Usage = { inputTokens: 0, outputTokens: 0 };
  #finish: FinishReason | undefined;
  #done = false;

  constructor(alias: string, slot: string, emit: (part: Part) => void) {
    this.#alias = alias;
    this.#slot = slot;
    this.#emit = emit;
  }

  get usage(): Usage {
    return this.#usage;
  }

  /** @throws `upstream_malformed` or `upstream_error` */
  event(data: string): void {
    if (data === '[DONE]') {
      this.#done = true;
      return;
    }
    const parsed = parse(data);
    if (!completion.Check(parsed)) {
      throw new ConsortError('upstream_malformed', [this.#alias, data.slice(0, 200)]);
    }
    if (parsed.error) throw new ConsortError('upstream_error', [this.#alias, errorText(parsed.error)]);
    this.#read(parsed, data);
  }

  /** @throws `upstream_truncated` when the completion has no end */
  answer(): Answer {
    if (!this.#finish && !this.#done) throw new ConsortError('upstream_truncated', [this.#alias]);
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
      from: [this.#alias],
      ...(this.#logprobs.length > 0 && { logprobs: this.#logprobs }),
      ...(this.#tokenIds.length > 0 && { tokenIds: this.#tokenIds }),
      ...(this.#promptTokenIds && { promptTokenIds: this.#promptTokenIds }),
    };
  }

  /** The last part made from these bytes carries them; bytes that say nothing we read become an opaque part. */
  #read(body: Completion, raw: string): void {
    let held: Part | undefined;
    const emit = (part: Part) => {
      if (held) this.#emit(held);
      held = part;
    };
    for (const choice of body.choices ?? []) {
      const index = choice.index ?? 0;
      const said = choice.delta ?? choice.message;
      if (said) this.#said(said, index, emit);
      const content = choice.logprobs?.content;
      if (content?.length) {
        if (index === 0) this.#logprobs.push(...content);
        emit({ type: 'logprobs-delta', slot: this.#slot, choice: index, content });
      }
      if (index === 0 && choice.token_ids) this.#tokenIds.push(...choice.token_ids);
      if (choice.finish_reason) {
        const reason = this.#tools.length > 0 ? 'tool_calls' : (FINISH[choice.finish_reason] ?? 'stop');
        if (index === 0) this.#finish = reason;
        emit({ type: 'finish', slot: this.#slot, choice: index, reason });
      }
    }
    if (body.prompt_token_ids) this.#promptTokenIds = body.prompt_token_ids;
    if (body.usage) {
      this.#usage = {
        inputTokens: body.usage.prompt_tokens ?? 0,
        outputTokens: body.usage.completion_tokens ?? 0,
      };
      emit({ type: 'usage', slot: this.#slot, choice: 0, usage: this.#usage });
    }
    this.#emit(held ? { ...held, raw } : { type: 'opaque', slot: this.#slot, choice: 0, raw });
  }

  #said(said: Said, choice: number, emit: (part: Part) => void): void {
    const at = { slot: this.#slot, choice };
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
      const index = this.#toolIndex(tool.index ?? position, tool.id);
      const entry = this.#tools[index]!;
      entry.name += tool.function?.name ?? '';
      entry.arguments += tool.function?.arguments ?? '';
      emit({
        type: 'tool-call-delta',
        ...at,
        index,
        ...(tool.id && { id: tool.id }),
        ...(tool.function?.name && { name: tool.function.name }),
        ...(tool.function?.arguments && { arguments: tool.function.arguments }),
      });
    }
  }

  #toolIndex(theirs: number, id: string | null | undefined): number {
    const known = this.#toolAt.get(theirs);
    if (known !== undefined && (!id || this.#tools[known]?.id === id)) return known;
    const index = this.#tools.push({ id: id ?? '', name: '', arguments: '' }) - 1;
    this.#toolAt.set(theirs, index);
    return index;
  }
}

function parse(data: string): unknown {
  try {
    return JSON.parse(data);
  } catch {
    return undefined;
  }
}
