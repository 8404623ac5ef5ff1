/** The record: what one run of a coalition did. Append-only and complete; every plan that starts ends in one. */
import Type, { type Static } from 'typebox';
import { Usage } from './chat.ts';
import { Plan } from './plan.ts';

const Status = Type.Union([
  Type.Literal('ok'),
  Type.Literal('failed'),
  Type.Literal('timeout'),
  Type.Literal('cancelled'),
  Type.Literal('refused'),
]);

export const CallRecord = Type.Object({
  slot: Type.String(),
  member: Type.String(),
  revision: Type.String(),
  purpose: Type.String(),
  reads: Type.Array(Type.String()),
  sample: Type.Integer({ minimum: 0 }),
  /** Milliseconds after the run began. */
  startMs: Type.Number(),
  firstPartMs: Type.Union([Type.Number(), Type.Null()]),
  endMs: Type.Number(),
  status: Status,
  errorCode: Type.Optional(Type.String()),
  finishReason: Type.Optional(Type.String()),
  attempts: Type.Integer({ minimum: 0 }),
  reused: Type.Boolean(),
  /** Whose answer it is when another model stood in for the member; `errorCode` says why. */
  standIn: Type.Optional(Type.String()),
  /** Which of several endpoints answered, or was asked last. */
  endpoint: Type.Optional(Type.String()),
  usage: Usage,
  costMicros: Type.Integer({ minimum: 0 }),
});
export type CallRecord = Static<typeof CallRecord>;

export const AbsenceRecord = Type.Object({
  member: Type.String(),
  status: Type.String(),
  code: Type.String(),
});
export type AbsenceRecord = Static<typeof AbsenceRecord>;

export const OutcomeStatus = Type.Union([
  Type.Literal('ok'),
  Type.Literal('failed'),
  Type.Literal('cancelled'),
  Type.Literal('timeout'),
]);
export type OutcomeStatus = Static<typeof OutcomeStatus>;

export const Outcome = Type.Object({
  v: Type.Literal(1),
  /** UUIDv7; its time is the start of the run. */
  id: Type.String(),
  plan: Plan,
  taskLabel: Type.String(),
  verifier: Type.Union([Type.String(), Type.Null()]),
  /** The gold answer and the verifier's parameters travel only while a reward is still to be made. */
  gold: Type.Optional(Type.Unknown()),
  params: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
  choices: Type.Optional(Type.Record(Type.String(), Type.String())),
  calls: Type.Array(CallRecord),
  answer: Type.Union([Type.String(), Type.Null()]),
  answerFrom: Type.Array(Type.String()),
  finishReason: Type.Union([Type.String(), Type.Null()]),
  /** Masks over the pool: who was assigned, and who answered in time. */
  intended: Type.Integer({ minimum: 1 }),
  realised: Type.Integer({ minimum: 0 }),
  absences: Type.Array(AbsenceRecord),
  status: OutcomeStatus,
  errorCode: Type.Optional(Type.String()),
  /** Set when the answer is the best so far, because time or money ran out. */
  cutShort: Type.Optional(Type.Union([Type.Literal('deadline'), Type.Literal('budget')])),
  /**
   * Set when the answer was settled before everybody was heard: the rest was stopped, or heard all the same. Who was
   * heard in `taken` runs depends on what they said; a replay counts the `withheld` ones for both.
   */
  earlyExit: Type.Optional(Type.Union([Type.Literal('taken'), Type.Literal('withheld')])),
  /** Unix milliseconds of the start; durations in milliseconds. */
  startedAt: Type.Number(),
  firstPartMs: Type.Union([Type.Number(), Type.Null()]),
  durationMs: Type.Number(),
  usage: Usage,
  costMicros: Type.Integer({ minimum: 0 }),
  simulated: Type.Boolean(),
});
export type Outcome = Static<typeof Outcome>;
