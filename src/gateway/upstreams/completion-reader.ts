/** Reads a whole `/completions` response into an answer, its log-probabilities in the shape that chat has. */
import Type from 'typebox';
import { Compile } from 'typebox/compile';
import type { Answer } from '../../contract/call.ts';
import type { Usage } from '../../contract/chat.ts';
import { ConsortError } from '../../contract/errors.ts';

const open = { additionalProperties: true };
const nullable = <S extends Type.TSchema>(schema: S) => Type.Optional(Type.Union([schema, Type.Null()]));
const Completion = Type.Object(
  {
    choices: Type.Array(
      Type.Object(
        {
          text: Type.String(),
          finish_reason: nullable(Type.String()),
          token_ids: nullable(Type.Array(Type.Integer())),
          prompt_token_ids: nullable(Type.Array(Type.Integer())),
          logprobs: nullable(
            Type.Object(
              {
                tokens: Type.Array(Type.String()),
                token_logprobs: Type.Array(Type.Union([Type.Number(), Type.Null()])),
                top_logprobs: nullable(
                  Type.Array(Type.Union([Type.Record(Type.String(), Type.Number()), Type.Null()])),
                ),
              },
              open,
            ),
          ),
        },
        open,
      ),
      { minItems: 1 },
    ),
    usage: nullable(
      Type.Object(
        { prompt_tokens: nullable(Type.Integer()), completion_tokens: nullable(Type.Integer()) },
        open,
      ),
    ),
  },
  open,
);
type Completion = Type.Static<typeof Completion>;
type Logprobs = NonNullable<Completion['choices'][number]['logprobs']>;

const completion = Compile(Completion);

export interface CompletionReaderOptions {
  readonly alias: string;
  /** Takes secrets out of what the upstream says. */
  readonly redact: (text: string) => string;
}

export class CompletionReader {
  readonly #options: CompletionReaderOptions;
  #answer: Answer | undefined;
  usage: Usage = { inputTokens: 0, outputTokens: 0 };
  readonly done = false;

  constructor(options: CompletionReaderOptions) {
    this.#options = options;
  }

  /** @throws `upstream_malformed`: a stream was never asked for */
  event(data: string): boolean {
    throw this.#malformed(data);
  }

  /** @throws `upstream_malformed` */
  body(data: string): void {
    const parsed = parse(data);
    const choice = completion.Check(parsed) ? parsed.choices[0] : undefined;
    if (!completion.Check(parsed) || !choice) throw this.#malformed(data);
    this.usage = {
      inputTokens: parsed.usage?.prompt_tokens ?? 0,
      outputTokens: parsed.usage?.completion_tokens ?? 0,
    };
    this.#answer = {
      message: { text: choice.text },
      finishReason: choice.finish_reason === 'length' ? 'length' : 'stop',
      usage: this.usage,
      from: [this.#options.alias],
      ...(choice.logprobs && { logprobs: entriesOf(choice.logprobs) }),
      ...(choice.token_ids && { tokenIds: choice.token_ids }),
      ...(choice.prompt_token_ids && { promptTokenIds: choice.prompt_token_ids }),
    };
  }

  /** @throws `upstream_truncated` when nothing has come */
  answer(): Answer {
    if (!this.#answer) throw new ConsortError('upstream_truncated', [this.#options.alias]);
    return this.#answer;
  }

  #malformed(data: string): ConsortError {
    const { alias, redact } = this.#options;
    return new ConsortError('upstream_malformed', [alias, redact(data).slice(0, 200)]);
  }
}

function entriesOf({ tokens, token_logprobs, top_logprobs }: Logprobs): object[] {
  return tokens.map((token, index) => ({
    token,
    logprob: token_logprobs[index],
    top_logprobs: Object.entries(top_logprobs?.[index] ?? {}).map(([other, logprob]) => ({
      token: other,
      logprob,
    })),
  }));
}

function parse(data: string): unknown {
  try {
    return JSON.parse(data);
  } catch {
    return undefined;
  }
}
