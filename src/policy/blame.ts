/**
 * Whose failure was it? An outage of a partner, the verifier, the store or the policy's server says nothing about the
 * policy: such a rollout is `invalid` and left out. What the policy itself brought about (too long, too slow, too
 * dear, empty, too much for whoever had to read it) is graded: left out, it would reward failing where it would be wrong.
 */
import { isAbsent, type Absence } from '../contract/call.ts';
import type { ErrorCode } from '../contract/errors.ts';
import type { CallRecord, Outcome } from '../contract/outcome.ts';
import type { Reward } from '../contract/reward.ts';
import type { RolloutStatus } from '../contract/trajectory.ts';
import { Downstream, type Heard } from './turns.ts';

/** Ends of a call that its run decided on: the run's own end says whose they were. */
const OF_THE_RUN: readonly ErrorCode[] = ['deadline', 'client_gone', 'budget_spent'];
/** HTTP statuses with which a server refuses a prompt: too long, or not to be read. */
const REFUSED_PROMPT: readonly number[] = [400, 413, 422];

type Fault = 'none' | 'policy' | 'outage';

/**
 * What a failed call says.
 *
 * @param isPolicy whether it is the policy's own
 * @param readsPolicy whether words of the policy were in its prompt
 */
function faultOf({ error }: Absence, isPolicy: boolean, readsPolicy: boolean): Fault {
  if (OF_THE_RUN.includes(error.code)) return 'none';
  // Saying nothing is how a model behaves, not how a server fails.
  if (error.code === 'upstream_empty') return isPolicy ? 'policy' : 'none';
  if (error.code === 'upstream_timeout' && isPolicy) return 'policy';
  if (error.code === 'upstream_status' && REFUSED_PROMPT.includes(error.status) && readsPolicy)
    return 'policy';
  return 'outage';
}

function faultsOf(heard: readonly Heard[], policy: string): Fault[] {
  const downstream = new Downstream(policy);
  return heard.map(({ call, result }) => {
    const readsPolicy = downstream.reads(call);
    downstream.add(call);
    return isAbsent(result) ? faultOf(result, call.member.alias === policy, readsPolicy) : 'none';
  });
}

/** Whether the policy used as much as any partner: of the time, or of the money. */
function usedMost(calls: readonly CallRecord[], policy: string, used: (call: CallRecord) => number): boolean {
  const totals = new Map<string, number>([[policy, 0]]);
  for (const call of calls) totals.set(call.member, (totals.get(call.member) ?? 0) + used(call));
  const own = totals.get(policy) ?? 0;
  return [...totals.values()].every((total) => total <= own);
}

function wasTruncated({ result, empty }: Heard): boolean {
  return (isAbsent(result) ? empty : result)?.finishReason === 'length';
}

/**
 * How a rollout ended.
 *
 * @param heard its calls in the order of asking
 * @param reward undefined or with value null when there is none
 * @param policy alias
 */
export function statusOf(
  outcome: Outcome,
  heard: readonly Heard[],
  reward: Reward | undefined,
  policy: string,
): RolloutStatus {
  const faults = faultsOf(heard, policy);
  if ((reward?.value ?? null) === null || outcome.status === 'cancelled') return 'invalid';
  if (faults.includes('outage')) return 'invalid';
  const { calls, errorCode } = outcome;
  if (errorCode === 'deadline') {
    return usedMost(calls, policy, ({ startMs, endMs }) => endMs - startMs) ? 'timeout' : 'invalid';
  }
  if (outcome.status !== 'ok') {
    const wasDear =
      calls.some((call) => call.errorCode === 'budget_spent') &&
      usedMost(calls, policy, ({ costMicros }) => costMicros);
    if (!wasDear && !faults.includes('policy')) return 'invalid';
    return outcome.status === 'timeout' ? 'timeout' : 'failed';
  }
  return heard.some((one) => one.call.member.alias === policy && wasTruncated(one)) ? 'truncated' : 'ok';
}
