/** What every pure verifier does alike: checks its parameters, reads the answer, and turns faults into a status. */
import Type, { type Static, type TSchema } from 'typebox';
import Value from 'typebox/value';
import { findAnswer, type ExtractedAnswer, type NoAnswer } from './extract.ts';
import type { Grade, GradeInput, PureVerifier } from './reward.ts';

/** The right answer: one string or number, or a list of them whose meaning the verifier documents. */
export const Gold = Type.Union([
  Type.String(),
  Type.Number(),
  Type.Array(Type.Union([Type.String(), Type.Number()]), { minItems: 1 }),
]);
export type Gold = Static<typeof Gold>;

export interface Rule<Params extends TSchema> {
  readonly id: string;
  readonly version: string;
  readonly params: Params;
  /** Grades one answer against the golds (never empty). */
  judge(context: {
    readonly completion: string;
    readonly found: ExtractedAnswer | NoAnswer;
    readonly golds: readonly string[];
    readonly params: Static<Params>;
  }): Grade;
}

/** A verifier from its rule. Parameters or a gold of the wrong shape give `grader-error` and no reward. */
export function pureVerifier<Params extends TSchema>(rule: Rule<Params>): PureVerifier {
  const { id, version, params: schema } = rule;
  const grade = ({ completion, gold, params = {} }: GradeInput): Grade => {
    if (!Value.Check(schema, params)) return graderError('params', firstFault(schema, params));
    if (!Value.Check(Gold, gold)) return graderError('gold', 'must be a string, a number or a list of them');
    const golds = (Array.isArray(gold) ? gold : [gold]).map(String);
    return rule.judge({ completion, found: findAnswer(completion), golds, params });
  };
  return { id, version, deterministic: true, params: schema, grade };
}

/** No reward, because what the grader was given is at fault. */
export function graderError(part: 'gold' | 'params', reason: string): Grade {
  return { reward: null, status: 'grader-error', details: { part, reason } };
}

/** Zero, because nothing usable is stated. */
export function noAnswer(reason: NoAnswer): Grade {
  return { reward: 0, status: reason === 'too-long' ? 'unparseable' : 'no-answer', details: { reason } };
}

/** One for a match, zero otherwise. */
export function graded(matches: boolean, { answer, source }: ExtractedAnswer): Grade {
  return { reward: matches ? 1 : 0, status: 'graded', answer, source };
}

/** Zero, because the answer is not of the kind that was asked for. */
export function unparseable({ answer, source }: ExtractedAnswer): Grade {
  return { reward: 0, status: 'unparseable', answer, source };
}

function firstFault(schema: TSchema, value: unknown): string {
  const [fault] = Value.Errors(schema, value);
  return fault === undefined ? 'not valid' : `${fault.instancePath} ${fault.message}`.trim();
}
