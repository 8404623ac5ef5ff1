/**
 * The replies of a Tinker server that are read here, and no field more: servers add their own. Requests are plain
 * objects written where they are sent.
 */
import Type, { type Static, type TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import { ConsortError } from '../../contract/errors.ts';
import type { WireDatum } from '../datums.ts';

export type { WireDatum };

const Text = Type.Union([Type.String(), Type.Null()]);

export const Capabilities = Type.Object({
  supported_models: Type.Array(
    Type.Object({
      model_name: Type.Optional(Text),
      /** hatchery's name for the same. */
      model_id: Type.Optional(Text),
      max_context_length: Type.Optional(Type.Union([Type.Integer(), Type.Null()])),
    }),
  ),
});
export type Capabilities = Static<typeof Capabilities>;

export const SessionReply = Type.Object({
  session_id: Type.String({ minLength: 1 }),
  error_message: Type.Optional(Text),
});

/** What any submitted operation is answered with. */
export const Submitted = Type.Object({
  request_id: Type.String({ minLength: 1 }),
  model_id: Type.Optional(Text),
});
export type Submitted = Static<typeof Submitted>;

export const ModelMade = Type.Object({ model_id: Type.String({ minLength: 1 }) });

export const ModelInfo = Type.Object({
  model_id: Type.String(),
  model_data: Type.Object({ base_model: Type.Optional(Text) }),
});

const Tensor = Type.Object({
  data: Type.Array(Type.Union([Type.Number(), Type.Null(), Type.String()])),
});

/** Of a forward or forward-backward pass. What is not finite may come as null or as text. */
export const Passed = Type.Object({
  loss_fn_outputs: Type.Array(Type.Object({ logprobs: Tensor, elementwise_loss: Type.Optional(Tensor) })),
  metrics: Type.Optional(Type.Union([Type.Record(Type.String(), Type.Unknown()), Type.Null()])),
});
export type Passed = Static<typeof Passed>;

export const Stepped = Type.Object({
  metrics: Type.Optional(Type.Union([Type.Record(Type.String(), Type.Unknown()), Type.Null()])),
});

export const Saved = Type.Object({ path: Type.Optional(Text) });

export const Anything = Type.Unknown();

export const Checkpoints = Type.Object({
  checkpoints: Type.Array(Type.Object({ checkpoint_id: Type.String(), tinker_path: Type.Optional(Text) })),
});

/** What `retrieve_future` may say instead of a result, with status 200. */
export const Pending = Type.Object({ type: Type.Literal('try_again') });
export const Failed = Type.Object({
  error: Type.String(),
  category: Type.Optional(Text),
});

/** FastAPI's error: a text, or a list of where and what. */
export const ErrorDetail = Type.Object({
  detail: Type.Union([Type.String(), Type.Array(Type.Object({ msg: Type.Optional(Type.String()) }))]),
});

/** The adapter's config as PEFT writes it. */
export const AdapterConfig = Type.Object({
  peft_type: Type.String(),
  r: Type.Integer({ minimum: 1 }),
  lora_alpha: Type.Number(),
  base_model_name_or_path: Type.Optional(Text),
  target_modules: Type.Optional(Type.Union([Type.Array(Type.String()), Type.String(), Type.Null()])),
});
export type AdapterConfig = Static<typeof AdapterConfig>;

export const TensorHeader = Type.Record(
  Type.String(),
  Type.Union([
    Type.Object({
      dtype: Type.String(),
      shape: Type.Array(Type.Integer({ minimum: 0 })),
      data_offsets: Type.Tuple([Type.Integer({ minimum: 0 }), Type.Integer({ minimum: 0 })]),
    }),
    Type.Record(Type.String(), Type.String()),
  ]),
);
export type TensorHeader = Static<typeof TensorHeader>;

/** One schema, compiled once: says yes or no, or decodes and names what was expected where. */
export class Reader<S extends TSchema> {
  readonly #check: ReturnType<typeof Compile<S>>;

  constructor(schema: S) {
    this.#check = Compile(schema);
  }

  is(value: unknown): value is Static<S> {
    return this.#check.Check(value);
  }

  /** @throws trainer_malformed naming the first field that does not fit */
  read(value: unknown, operation: string): Static<S> {
    if (this.is(value)) return value;
    const [first] = this.#check.Errors(value);
    const where = first ? `${first.instancePath || 'the reply'} ${first.message}` : 'another shape';
    throw new ConsortError('trainer_malformed', [operation, where]);
  }
}

/** Parses what a server sent. @throws trainer_malformed */
export function parseJson(text: string, operation: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new ConsortError('trainer_malformed', [operation, 'not JSON'], { cause: error });
  }
}
