/** From a call of a rollout to a turn of its trajectory: what was asked, who was read, what was sampled. */
import { isAbsent, type Absence, type Answer, type Call } from '../contract/call.ts';
import type { Sampling } from '../contract/chat.ts';
import type { Turn } from '../contract/trajectory.ts';

/** One call of a rollout and what came of it. */
export interface Heard {
  readonly call: Call;
  readonly result: Answer | Absence;
  /** What a call that counts as absent because it said nothing had sampled all the same. */
  readonly empty?: Answer;
}

/** What keeps a policy turn, and with it its group, from being trained on. */
export type TurnProblem =
  | 'temperature'
  | 'constrained'
  | 'missing-token-ids'
  | 'missing-logprobs'
  | 'length-mismatch'
  | 'not-finite'
  | 'implausible-logprobs';

export interface TurnContext {
  /** Alias of the policy. */
  readonly policy: string;
  /** The version of its weights that this rollout is pinned to. */
  readonly policyVersion: number;
  readonly logprobsMode: 'raw' | 'processed';
  /** Lower-case hex SHA-256 of a text in UTF-8. */
  readonly sha256: (text: string) => string;
}

/** Log-probs a little above 0 are rounding (bfloat16); vLLM writes −9999 where it has no finite one. */
export const LARGEST_LOGPROB = 1e-3;
export const SMALLEST_LOGPROB = -9998;

/**
 * The slots whose text holds words of the policy, its own included, told call by call in the order of asking:
 * whatever reads such a slot is downstream of the policy.
 */
export class Downstream {
  readonly #slots = new Set<string>();
  readonly #policy: string;

  constructor(policy: string) {
    this.#policy = policy;
  }

  /** Whether the prompt holds words of the policy. */
  reads({ reads }: Call): boolean {
    return reads.some((slot) => this.#slots.has(slot));
  }

  /** Takes note of a call; whether it is the policy's or downstream of it. */
  add(call: Call): boolean {
    const isDownstream = call.member.alias === this.#policy || this.reads(call);
    if (isDownstream) this.#slots.add(call.slot);
    return isDownstream;
  }
}

/**
 * The turns of one rollout.
 *
 * @param heard in the order of asking, so that parents come first
 * @returns the turns, and what is wrong with those of the policy that answered
 */
export function turnsOf(
  heard: readonly Heard[],
  context: TurnContext,
): { readonly turns: Turn[]; readonly problems: TurnProblem[] } {
  const turns: Turn[] = [];
  const problems: TurnProblem[] = [];
  for (const [turnIndex, one] of heard.entries()) {
    const parentTurns = turns
      .filter(({ slot }) => one.call.reads.includes(slot))
      .map((turn) => turn.turnIndex);
    const sampled = sampledBy(one, context);
    problems.push(...sampled.problems);
    turns.push({ turnIndex, parentTurns, ...plainFields(one, context), ...sampled.fields });
  }
  return { turns, problems: [...new Set(problems)] };
}

function plainFields({ call, result, empty }: Heard, { policy, sha256 }: TurnContext) {
  const answer = isAbsent(result) ? empty : result;
  const { temperature = 1, top_p: topP = 1, max_tokens, max_completion_tokens, seed } = call.sampling;
  const maxTokens = max_completion_tokens ?? max_tokens;
  return {
    slot: call.slot,
    agentRole: call.purpose,
    model: call.member.model,
    isPolicy: call.member.alias === policy,
    sampling: {
      temperature,
      topP,
      ...(maxTokens !== undefined && { maxTokens }),
      ...(seed !== undefined && { seed }),
      constrained: isConstrained(call),
    },
    finishReason: isAbsent(result) && !empty ? result.status : (answer?.finishReason ?? 'failed'),
    textSha256: sha256(answer?.message.text ?? ''),
    usage: answer?.usage ?? { inputTokens: 0, outputTokens: 0 },
  };
}

type SampledFields = Pick<
  Turn,
  'trainable' | 'policyVersion' | 'promptTokenIds' | 'responseTokenIds' | 'responseLogprobs' | 'logprobsMode'
>;

/** The tokens of a policy turn, or why there are none to train on. A turn without an answer has no problem either. */
function sampledBy(
  { call, result, empty }: Heard,
  { policy, policyVersion, logprobsMode }: TurnContext,
): { readonly fields: SampledFields; readonly problems: TurnProblem[] } {
  const answer = isAbsent(result) ? empty : result;
  if (call.member.alias !== policy) return { fields: { trainable: false }, problems: [] };
  if (!answer) return { fields: { trainable: false, policyVersion }, problems: [] };
  const { promptTokenIds, tokenIds, logprobs } = answer;
  const problems: TurnProblem[] = [];
  if (!isFree(call.sampling)) problems.push('temperature');
  if (isConstrained(call)) problems.push('constrained');
  if (!tokenIds?.length || !promptTokenIds?.length) problems.push('missing-token-ids');
  if (!logprobs?.length) problems.push('missing-logprobs');
  if (tokenIds?.length && logprobs?.length) problems.push(...unfitting(tokenIds, logprobs));
  if (problems.length > 0) return { fields: { trainable: false, policyVersion }, problems };
  return {
    fields: {
      trainable: true,
      policyVersion,
      promptTokenIds: [...(promptTokenIds ?? [])],
      responseTokenIds: [...(tokenIds ?? [])],
      responseLogprobs: (logprobs ?? []).map((entry) => logprobOf(entry)),
      logprobsMode,
    },
    problems,
  };
}

function isConstrained({ responseFormat, choose }: Call): boolean {
  return responseFormat !== undefined || (choose !== undefined && !choose.free);
}

/** Whether tokens are drawn from the model's own distribution, which is the only one that trainers know. */
function isFree({ temperature, top_p, presence_penalty, frequency_penalty }: Sampling): boolean {
  const penalties = [presence_penalty ?? 0, frequency_penalty ?? 0];
  return temperature === 1 && top_p === 1 && penalties.every((penalty) => penalty === 0);
}

function unfitting(ids: readonly number[], logprobs: readonly unknown[]): TurnProblem[] {
  if (ids.length !== logprobs.length) return ['length-mismatch'];
  const values = logprobs.map((entry) => logprobOf(entry));
  if (!values.every((value) => Number.isFinite(value))) return ['not-finite'];
  const plausible = values.every((value) => value >= SMALLEST_LOGPROB && value <= LARGEST_LOGPROB);
  return plausible ? [] : ['implausible-logprobs'];
}

/** The number in an entry of `choices[].logprobs.content`; NaN when there is none. */
function logprobOf(entry: unknown): number {
  if (typeof entry !== 'object' || entry === null || !('logprob' in entry)) return NaN;
  return typeof entry.logprob === 'number' ? entry.logprob : NaN;
}
