/** What a client that asked for a trace is shown of the run: steps as they happen, and all of it at the end. */
import type { Outcome } from '../../contract/outcome.ts';
import type { StepEnd, StepStart } from '../../contract/part.ts';
import { usageBody } from './usage-body.ts';

function traceBody({ id, plan, calls, intended, realised, absences, costMicros, durationMs }: Outcome) {
  return {
    outcome: id,
    system: plan.system,
    protocol: plan.protocol,
    members: plan.members.map(({ alias }) => alias),
    ...(plan.merged && { merged: plan.merged.alias }),
    intended,
    realised,
    absences,
    cost_usd: costMicros / 1e6,
    duration_ms: Math.round(durationMs),
    simulated: plan.simulated,
    calls: calls.map((call) => ({
      slot: call.slot,
      member: call.member,
      purpose: call.purpose,
      status: call.status,
      reused: call.reused,
      start_ms: Math.round(call.startMs),
      end_ms: Math.round(call.endMs),
      usage: usageBody(call.usage),
      cost_usd: call.costMicros / 1e6,
    })),
  };
}

/** The trace of one run, or one for each choice. */
export function traceFields(outcomes: readonly Outcome[]): object {
  const traces = outcomes.map(traceBody);
  return traces.length === 1 ? { trace: traces[0] } : { traces };
}

export function stepBody(part: StepStart | StepEnd): object {
  const { slot, type, member, choice } = part;
  if (part.type === 'step-start') return { type, choice, slot, member, purpose: part.purpose };
  return {
    type,
    choice,
    slot,
    member,
    status: part.status,
    duration_ms: Math.round(part.durationMs),
    usage: usageBody(part.usage),
    ...(part.text !== undefined && { text: part.text }),
  };
}
