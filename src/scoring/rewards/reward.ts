/** The interface of every verifier: from a completion and what is known about the right answer to a reward. */
import Type, { type Static, type TSchema } from 'typebox';

export const GradeStatus = Type.Union([
  Type.Literal('graded'),
  /** Nothing in the completion is stated as its answer. */
  Type.Literal('no-answer'),
  /** There is an answer, but not of the kind that was asked for. */
  Type.Literal('unparseable'),
  Type.Literal('unknown'),
  Type.Literal('timeout'),
  /** The gold answer, the parameters or the grader itself is at fault: there is no reward. */
  Type.Literal('grader-error'),
  Type.Literal('refused'),
]);
export type GradeStatus = Static<typeof GradeStatus>;

export const AnswerSource = Type.Union([
  Type.Literal('boxed'),
  Type.Literal('tag'),
  Type.Literal('hash'),
  Type.Literal('phrase'),
  Type.Literal('whole'),
  Type.Literal('last-line'),
  Type.Literal('last-number'),
  Type.Literal('json'),
  Type.Literal('code'),
]);
export type AnswerSource = Static<typeof AnswerSource>;

export const Grade = Type.Object({
  /** In [0, 1]; `null` means that no reward exists, which is not a zero. */
  reward: Type.Union([Type.Number({ minimum: 0, maximum: 1 }), Type.Null()]),
  status: GradeStatus,
  /** The answer as it was read, before normalisation. */
  answer: Type.Optional(Type.String()),
  source: Type.Optional(AnswerSource),
  details: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
});
export type Grade = Static<typeof Grade>;

export interface GradeInput {
  /** The question, for verifiers that need it. */
  readonly prompt?: string;
  /** The whole text that the system answered, reasoning included. */
  readonly completion: string;
  /** The right answer, in the form that the verifier documents. */
  readonly gold: unknown;
  /** The task's parameters; checked against `Verifier.params`. */
  readonly params?: unknown;
}

export interface Verifier {
  /** Lower case with hyphens; names the verifier in task files. */
  readonly id: string;
  /** Stored with every reward: values under different versions are never mixed. */
  readonly version: string;
  /** Whether the same input always gives the same grade. */
  readonly deterministic: boolean;
  readonly params: TSchema;
  /** Never throws on any completion, gold or parameters: what is wrong becomes a status. */
  grade(input: GradeInput): Grade | Promise<Grade>;
}

/** A verifier that needs no I/O and so answers at once. */
export interface PureVerifier extends Verifier {
  grade(input: GradeInput): Grade;
}
