/**
 * Collects a group: G runs of the whole live system on one prompt, side by side.
 *
 * What is shared and what is not. A call that neither is the policy's nor reads, directly or through others, what the
 * policy wrote has nothing to do with what the policy did: it is made once for the group and heard by every rollout.
 * Every other call is made afresh in each rollout. So a group costs little more than its policy calls, and RLOO stays
 * unbiased: given what is shared, the rollouts are independent, and each one's baseline are the others. Partners are
 * frozen: they are asked as in serving.
 *
 * How. Whatever can change an answer is in the key of a shared call, the number of the sample with it. So every fresh
 * call becomes a sample of its own (`drawAt`), with its own key, seed and, in the simulated pool, its own draw; so
 * does a shared call whose prompt is that of an earlier one, as two rounds of a debate may be; and each visit of a
 * prompt has samples of its own. One answer heard twice would be trained on twice as if it had been drawn twice.
 */
import { createHash } from 'node:crypto';
import { isAbsent, type Call, type CallEnd } from '../contract/call.ts';
import type { Clock, NewId, RunSystem, SharedCalls } from '../contract/capabilities.ts';
import type { Sampling } from '../contract/chat.ts';
import type { Outcome } from '../contract/outcome.ts';
import type { Plan } from '../contract/plan.ts';
import type { Reward } from '../contract/reward.ts';
import type { Task } from '../contract/task.ts';
import type { AdvantageKind, Objective, TrajectoryGroup } from '../contract/trajectory.ts';
import { groupOf, type GroupParts, type RolloutRun } from './groups.ts';
import { OBJECTIVES, planFor } from './objectives.ts';
import { Downstream, type Heard } from './turns.ts';

/** At least as many as any protocol asks of one member for one prompt at once. */
const SAMPLES = 64;
/** Draws of one rollout: more than it has calls, and more than it asks one prompt. */
const DRAWS = 4096;

export interface CollectorParts {
  readonly run: RunSystem;
  /** The reward of an outcome: value null, or none at all, when nobody can say. */
  readonly grade: (outcome: Outcome) => Promise<Reward | undefined>;
  readonly clock: Clock;
  readonly newId: NewId;
  readonly signal: AbortSignal;
}

export interface GroupRequest {
  /** Of the whole team; `objective` may make it smaller. The policy is always in it. */
  readonly plan: Plan;
  readonly task: Task;
  readonly taskId: string;
  readonly objective: Objective;
  readonly policy: TrajectoryGroup['policy'];
  /** G, at least 2. */
  readonly groupSize: number;
  readonly advantage: AdvantageKind;
  /** How often this prompt has been visited before: what is shared is drawn anew each time. */
  readonly visit: number;
  /** Longest response of the policy, in tokens; without it the task's own limit holds. */
  readonly maxTokens?: number;
  readonly overLength?: GroupParts['overLength'];
  /** What the serving engine reports; at temperature 1 both are the same. */
  readonly logprobsMode?: GroupParts['logprobsMode'];
}

/** Lower-case hex SHA-256 of a text in UTF-8. */
function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

/**
 * The number of a draw in the whole history of a prompt: no two that must be independent have the same.
 *
 * @param rollout undefined for a call that the group shares
 * @param draw within the rollout, or within what is shared
 */
export function drawAt(
  { visit, groupSize }: Pick<GroupRequest, 'visit' | 'groupSize'>,
  rollout: number | undefined,
  draw: number,
): number {
  if (draw >= DRAWS) throw new RangeError(`draw ${draw} of one rollout; at most ${DRAWS} are told apart`);
  const place = rollout === undefined ? 0 : rollout + 1;
  return (visit * (groupSize + 1) + place) * DRAWS + draw;
}

/** Free sampling, from the model's own distribution: every knob that could bend it is set to do nothing. */
function freely({ max_completion_tokens, ...sampling }: Sampling, maxTokens: number | undefined): Sampling {
  const limit = maxTokens ?? max_completion_tokens ?? sampling.max_tokens;
  return {
    ...sampling,
    temperature: 1,
    top_p: 1,
    presence_penalty: 0,
    frequency_penalty: 0,
    ...(limit !== undefined && { max_tokens: limit }),
  };
}

/**
 * A policy call as rollouts make it: free, unconstrained, with all that training needs. A label step of the policy's
 * is free text, too: if its whole is no label, what the protocol does then is what the policy is rewarded for.
 */
function sampled({ responseFormat: _format, choose, ...call }: Call, maxTokens: number | undefined): Call {
  return {
    ...call,
    ...(choose && { choose: { ...choose, free: true } }),
    sampling: freely(call.sampling, maxTokens),
    wants: { tokenIds: true, logprobs: true },
  };
}

/** The calls of one rollout, in the order of asking. */
class Listener {
  readonly #request: GroupRequest;
  readonly #rollout: number;
  readonly #downstream: Downstream;
  readonly #asked: { call: Call; end?: CallEnd }[] = [];
  /** How often the same was asked before, by what was asked. */
  readonly #repeats = new Map<string, number>();

  constructor(request: GroupRequest, rollout: number) {
    this.#request = request;
    this.#rollout = rollout;
    this.#downstream = new Downstream(request.policy.alias);
  }

  readonly prepare = (asked: Call): Call => {
    const { policy, maxTokens } = this.#request;
    const sample = this.#downstream.add(asked)
      ? drawAt(this.#request, this.#rollout, this.#asked.length)
      : drawAt(this.#request, undefined, this.#repeatsOf(asked) * SAMPLES + asked.sample);
    const call = asked.member.alias === policy.alias ? sampled(asked, maxTokens) : asked;
    const prepared = { ...call, sample };
    this.#asked.push({ call: prepared });
    return prepared;
  };

  /** The same in every rollout, as what is shared follows from nothing else. */
  #repeatsOf({ member, sample, messages }: Call): number {
    const prompt = JSON.stringify([member.alias, sample, messages]);
    const repeats = this.#repeats.get(prompt) ?? 0;
    this.#repeats.set(prompt, repeats + 1);
    return repeats;
  }

  readonly onCall = (end: CallEnd): void => {
    const { slot, sample } = end.call;
    const entry = this.#asked.find((one) => !one.end && one.call.slot === slot && one.call.sample === sample);
    if (entry) entry.end = end;
  };

  get heard(): Heard[] {
    return this.#asked.flatMap(({ end }) => {
      if (!end) return [];
      const { call, result, note } = end;
      return [{ call, result, ...(isAbsent(result) && note.empty && { empty: note.empty }) }];
    });
  }
}

/**
 * One group, complete whatever happens: `filter` says whether to train on it. When the signal stops it, the rollouts
 * that were not done are invalid.
 *
 * @throws coalition_invalid when the policy is not in the plan
 */
export async function collectGroup(request: GroupRequest, parts: CollectorParts): Promise<TrajectoryGroup> {
  const { objective, policy, groupSize, task } = request;
  if (!Number.isInteger(groupSize) || groupSize < 2)
    throw new RangeError(`a group of ${groupSize} has no baseline`);
  const smaller = planFor(objective, request.plan, policy.alias);
  // Marks and orders are the group's, too, and drawn anew at each visit.
  const plan = { ...smaller, replicate: smaller.replicate + request.visit };
  const share: SharedCalls = new Map();
  const runs = await Promise.all(
    Array.from({ length: groupSize }, (_, rollout) => rollOut(request, plan, rollout, share, parts)),
  );
  return groupOf(runs, {
    groupId: parts.newId(),
    at: parts.clock.now(),
    taskId: request.taskId,
    promptHash: sha256(JSON.stringify(task.messages)),
    objective,
    plan,
    policy,
    advantage: request.advantage,
    overLength: request.overLength ?? 'zero',
    logprobsMode: request.logprobsMode ?? 'raw',
    sha256,
  });
}

async function rollOut(
  request: GroupRequest,
  plan: Plan,
  rollout: number,
  share: SharedCalls,
  { run, grade, newId, signal }: CollectorParts,
): Promise<RolloutRun> {
  const listener = new Listener(request, rollout);
  const { prepare, onCall } = listener;
  const rolloutId = newId();
  const options = { share, prepare, onCall, signal, stream: false, trace: false };
  const { outcome } = await run({ ...plan, id: rolloutId }, request.task, options);
  const { heard } = listener;
  const { rewarded } = OBJECTIVES[request.objective];
  const reward = await grade(rewarded === 'own' ? ownOutcome(outcome, heard, request.policy.alias) : outcome);
  return { rolloutId, outcome, heard, policyVersion: request.policy.version, ...(reward && { reward }) };
}

/** The outcome as it would be, had the policy's last answer been the system's; a failure when it has none. */
function ownOutcome(outcome: Outcome, heard: readonly Heard[], policy: string): Outcome {
  const own = heard.findLast(({ call, result }) => call.member.alias === policy && !isAbsent(result));
  const status = own ? 'ok' : outcome.status === 'ok' ? 'failed' : outcome.status;
  const answer = own && !isAbsent(own.result) ? own.result.message.text : null;
  return { ...outcome, status, answer, answerFrom: own ? [policy] : [] };
}
