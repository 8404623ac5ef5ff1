/** The entries of a run's journal, and what they add up to. */
import Type, { type Static } from 'typebox';

const Count = Type.Integer({ minimum: 0 });
const Name = Type.String({ minLength: 1 });

export const AdamEntry = Type.Object({
  learningRate: Type.Number({ minimum: 0 }),
  beta1: Type.Optional(Type.Number()),
  beta2: Type.Optional(Type.Number()),
  eps: Type.Optional(Type.Number()),
  weightDecay: Type.Optional(Type.Number()),
  gradClipNorm: Type.Optional(Type.Number()),
});

const LossEntry = Type.Object({
  name: Type.Union([
    Type.Literal('importance_sampling'),
    Type.Literal('ppo'),
    Type.Literal('cispo'),
    Type.Literal('cross_entropy'),
  ]),
  config: Type.Optional(Type.Record(Type.String(), Type.Number())),
});

const Token = { token: Count };

/** A step that is about to be sent to a model: chunk i has sequence number `from` + i, its optimiser step `to`. */
export const StepEntry = Type.Object({
  ...Token,
  kind: Type.Literal('step'),
  step: Type.Integer({ minimum: 1 }),
  model: Name,
  from: Count,
  to: Count,
  groups: Type.Array(Name),
  /** SHA-256 of each chunk; the chunks are in the file of the step. */
  chunks: Type.Array(Name, { minItems: 1 }),
  loss: LossEntry,
  adam: AdamEntry,
});
export type StepEntry = Static<typeof StepEntry>;

/** Any other numbered operation that is about to be sent. */
export const OperationEntry = Type.Object({
  ...Token,
  kind: Type.Literal('operation'),
  operation: Type.Union([Type.Literal('save'), Type.Literal('export'), Type.Literal('score')]),
  model: Name,
  seq: Count,
  /** Steps taken when it was sent. */
  step: Count,
  name: Type.Optional(Name),
  sequences: Type.Optional(Type.Array(Type.Array(Count))),
});
export type OperationEntry = Static<typeof OperationEntry>;

export const JournalEntry = Type.Union([
  Type.Object({
    ...Token,
    kind: Type.Literal('run'),
    run: Name,
    baseModel: Name,
    rank: Type.Integer({ minimum: 1 }),
    seed: Count,
  }),
  /** A model that is ready, with the weights of `step`; `seq` is the last number that it has used. */
  Type.Object({
    ...Token,
    kind: Type.Literal('model'),
    session: Name,
    model: Name,
    step: Count,
    seq: Count,
  }),
  StepEntry,
  Type.Object({ ...Token, kind: Type.Literal('stepped'), step: Count }),
  Type.Object({ ...Token, kind: Type.Literal('dropped'), step: Count, reason: Type.String() }),
  OperationEntry,
  Type.Object({ ...Token, kind: Type.Literal('done'), seq: Count, path: Type.Optional(Name) }),
]);
export type JournalEntry = Static<typeof JournalEntry>;

type Kind<K extends JournalEntry['kind']> = Extract<JournalEntry, { kind: K }>;

const DatumPayload = Type.Object({
  model_input: Type.Object({
    chunks: Type.Tuple([Type.Object({ type: Type.Literal('encoded_text'), tokens: Type.Array(Count) })]),
  }),
  loss_fn_inputs: Type.Record(
    Type.String(),
    Type.Object({
      data: Type.Array(Type.Number()),
      dtype: Type.Union([Type.Literal('int64'), Type.Literal('float32')]),
      shape: Type.Tuple([Count]),
    }),
  ),
});
/** The chunks of a step as they were sent. */
export const StepPayload = Type.Array(Type.Array(DatumPayload));

/** What the entries of one run add up to. */
export class RunLog {
  run: Kind<'run'> | undefined;
  /** The newest model; there is none before the first, and none that lives after a step was dropped. */
  model: Kind<'model'> | undefined;
  saved: { readonly step: number; readonly path: string } | undefined;
  /** Steps that the newest model has taken. */
  position = 0;
  /** The last sequence number that the newest model has been sent, or is about to be. */
  seq = 0;
  /** An operation that was announced and not reported done. */
  pending: OperationEntry | undefined;
  readonly consumed = new Set<string>();
  readonly dropped = new Map<string, string>();
  readonly #steps = new Map<number, StepEntry>();
  readonly #covered: number[] = [];

  add(entry: JournalEntry): void {
    switch (entry.kind) {
      case 'run':
        this.run = entry;
        break;
      case 'model':
        this.model = entry;
        this.position = entry.step;
        this.seq = entry.seq;
        this.pending = undefined;
        break;
      case 'step':
        this.#steps.set(entry.step, entry);
        this.seq = entry.to;
        break;
      case 'stepped':
        this.position = entry.step;
        for (const group of this.#steps.get(entry.step)?.groups ?? []) this.consumed.add(group);
        break;
      case 'dropped':
        for (const group of this.#steps.get(entry.step)?.groups ?? []) {
          this.consumed.delete(group);
          this.dropped.set(group, entry.reason);
        }
        this.#steps.delete(entry.step);
        // Its gradients may be with the model.
        this.model = undefined;
        break;
      case 'operation':
        this.pending = entry;
        this.seq = entry.seq;
        break;
      case 'done':
        this.#settle(entry);
    }
  }

  #settle({ seq, path }: Kind<'done'>): void {
    const { pending } = this;
    if (pending?.seq !== seq) return;
    if (pending.operation === 'save' && path !== undefined) this.#save(pending.step, path);
    this.pending = undefined;
  }

  #save(step: number, path: string): void {
    this.saved = { step, path };
    for (const covered of this.#steps.keys()) {
      if (covered > step) continue;
      this.#steps.delete(covered);
      this.#covered.push(covered);
    }
  }

  /** Steps that the newest model has not taken yet, in order. */
  get ahead(): StepEntry[] {
    return [...this.#steps.values()]
      .filter(({ step }) => step > this.position)
      .toSorted((a, b) => a.step - b.step);
  }

  /** Numbers of the steps that a saved state covers, each given once: their datums are not needed any more. */
  takeCovered(): number[] {
    return this.#covered.splice(0);
  }

  /** The number of the next new step. */
  get nextStep(): number {
    return Math.max(this.position, this.saved?.step ?? 0, ...this.#steps.keys()) + 1;
  }

  has(group: string): boolean {
    return this.consumed.has(group) || this.ahead.some(({ groups }) => groups.includes(group));
  }
}
