/** Closes the book: one Outcome for every plan that was started. */
import type { Answer } from '../../contract/call.ts';
import type { ConsortError } from '../../contract/errors.ts';
import type { AbsenceRecord, CallRecord, Outcome, OutcomeStatus } from '../../contract/outcome.ts';
import type { Plan } from '../../contract/plan.ts';
import type { Task } from '../../contract/task.ts';

export interface Ending {
  readonly id: string;
  readonly plan: Plan;
  readonly task: Task;
  readonly calls: readonly CallRecord[];
  readonly answer: Answer | undefined;
  readonly error: ConsortError | undefined;
  readonly cutShort: Outcome['cutShort'];
  readonly earlyExit: Outcome['earlyExit'];
  readonly startedAt: number;
  readonly firstPartMs: number | null;
  readonly durationMs: number;
}

function statusOf(error: ConsortError | undefined): OutcomeStatus {
  if (!error) return 'ok';
  if (error.code === 'client_gone' || error.code === 'shutting_down') return 'cancelled';
  return error.code === 'deadline' || error.status === 504 ? 'timeout' : 'failed';
}

/**
 * The mask of those who answered at least once, and who failed, with the reason of the last failure. Whoever was
 * stopped because its answer was not needed did not fail; whom another model stood in for did. Merged weights answer or fail for all of them.
 */
function presence(plan: Plan, calls: readonly CallRecord[]): { realised: number; absences: AbsenceRecord[] } {
  const position = bitsOf(plan.mask);
  let realised = 0;
  const absences: AbsenceRecord[] = [];
  for (const [index, member] of plan.members.entries()) {
    const { alias } = plan.merged ?? member;
    const own = calls.filter((call) => call.member === alias);
    if (own.some(({ status, standIn }) => status === 'ok' && standIn === undefined))
      realised += 2 ** (position[index] ?? 0);
    const failed = own.findLast(
      ({ status, errorCode, standIn }) =>
        standIn !== undefined || (status !== 'ok' && errorCode !== 'call_not_needed'),
    );
    if (!failed) continue;
    const status = failed.standIn === undefined ? failed.status : 'failed';
    absences.push({ member: member.alias, status, code: failed.errorCode ?? 'internal' });
  }
  return { realised, absences };
}

/** The positions of the set bits, ascending. */
export function bitsOf(mask: number): number[] {
  const bits: number[] = [];
  for (let bit = 0; 2 ** bit <= mask; bit++) if (Math.floor(mask / 2 ** bit) % 2 === 1) bits.push(bit);
  return bits;
}

export function closeBook(ending: Ending): Outcome {
  const { plan, task, calls, answer, error } = ending;
  const { realised, absences } = presence(plan, calls);
  const usage = { inputTokens: 0, outputTokens: 0 };
  let costMicros = 0;
  for (const call of calls) {
    costMicros += call.costMicros;
    if (call.reused) continue;
    usage.inputTokens += call.usage.inputTokens;
    usage.outputTokens += call.usage.outputTokens;
  }
  return {
    v: 1,
    id: ending.id,
    plan,
    taskLabel: task.label ?? '',
    verifier: task.verifier ?? null,
    ...(task.gold !== undefined && { gold: task.gold }),
    ...(task.params && { params: task.params }),
    ...(task.choices && { choices: task.choices }),
    calls: [...calls],
    answer: answer ? answer.message.text : null,
    answerFrom: answer ? [...answer.from] : [],
    finishReason: answer ? answer.finishReason : null,
    intended: plan.mask,
    realised,
    absences,
    status: statusOf(error),
    ...(error && { errorCode: error.code }),
    ...(ending.cutShort && { cutShort: ending.cutShort }),
    ...(ending.earlyExit && { earlyExit: ending.earlyExit }),
    startedAt: ending.startedAt,
    firstPartMs: ending.firstPartMs,
    durationMs: ending.durationMs,
    usage,
    costMicros,
    simulated: plan.simulated,
  };
}
