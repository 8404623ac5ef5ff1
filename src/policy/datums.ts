/**
 * From the policy's turns to what a trainer takes. A datum is one token sequence with, for every token but the first,
 * the log-probability with which it was sampled, its advantage and whether it is trained. Nothing is ever
 * tokenised here: the ids are those that the serving engine returned (docs/training.md, "Token ids").
 */
import type { Rollout, TrajectoryGroup, Turn } from '../contract/trajectory.ts';

/**
 * One sequence, shifted by one: for tokens z₀ … z_N, `tokens` is z₀ … z_{N−1} and every other array is aligned with
 * the targets z₁ … z_N. All arrays have the same length N ≥ 1; where `weights` is 0, so are `logprobs` and `advantages`.
 */
export interface Datum {
  readonly groupId: string;
  readonly rolloutId: string;
  /** The turns whose responses are trained here, by `turnIndex`, ascending. */
  readonly turns: readonly number[];
  readonly tokens: readonly number[];
  readonly targetTokens: readonly number[];
  /** Natural logarithms under the policy that sampled (behaviour policy), ≤ 0 up to rounding. */
  readonly logprobs: readonly number[];
  /** The rollout's advantage on each trained target; `foldNormaliser` scales it to the trainer's reduction. */
  readonly advantages: readonly number[];
  /** 1 on trained targets, 0 elsewhere. */
  readonly weights: readonly number[];
}

/** How a trainer reduces the losses of tokens to the one that it descends. */
export type Reduction = 'sum' | 'datum-mean';

/** A policy turn that may be trained on, with all that this takes. */
interface Sampled {
  readonly turnIndex: number;
  readonly prompt: readonly number[];
  readonly response: readonly number[];
  readonly logprobs: readonly number[];
}

/** A sequence that later turns may prolong. */
interface Chain {
  readonly turns: number[];
  readonly ids: number[];
  /** By position in `ids`: whether the token was sampled here, and how. */
  readonly logprobs: number[];
  readonly weights: number[];
}

/** The arrays of a turn that may be trained on; undefined for any other. Lengths are what `checkGroup` promised. */
function sampledOf(turn: Turn): Sampled | undefined {
  const { turnIndex, trainable, promptTokenIds, responseTokenIds, responseLogprobs } = turn;
  if (!trainable || !promptTokenIds || !responseTokenIds || !responseLogprobs) return undefined;
  if (responseTokenIds.length !== responseLogprobs.length) {
    const counts = `${responseTokenIds.length} token ids and ${responseLogprobs.length} log-probs`;
    throw new RangeError(`turn ${turnIndex} (${turn.slot}) has ${counts}`);
  }
  return { turnIndex, prompt: promptTokenIds, response: responseTokenIds, logprobs: responseLogprobs };
}

function isPrefix(ids: readonly number[], of: readonly number[]): boolean {
  return ids.length <= of.length && ids.every((id, position) => of[position] === id);
}

function prolong(chain: Chain, { turnIndex, prompt, response, logprobs }: Sampled): void {
  chain.turns.push(turnIndex);
  for (const id of prompt.slice(chain.ids.length)) {
    chain.ids.push(id);
    chain.logprobs.push(0);
    chain.weights.push(0);
  }
  for (const [position, id] of response.entries()) {
    chain.ids.push(id);
    chain.logprobs.push(logprobs[position] ?? NaN);
    chain.weights.push(1);
  }
}

/**
 * Joins turns: one goes onto an earlier sequence if and only if its prompt starts with exactly those ids, prompt and
 * response (of several, onto the longest); otherwise it opens a sequence. So every response is trained once, and on
 * the context in which it was sampled.
 */
function chainsOf(turns: readonly Sampled[]): Chain[] {
  const chains: Chain[] = [];
  for (const turn of turns) {
    const [longest] = chains
      .filter(({ ids }) => isPrefix(ids, turn.prompt))
      .toSorted((a, b) => b.ids.length - a.ids.length);
    const chain = longest ?? { turns: [], ids: [], logprobs: [], weights: [] };
    prolong(chain, turn);
    if (!longest) chains.push(chain);
  }
  return chains;
}

/**
 * The datums of one rollout: those of its trainable turns, joined where the ids allow it. Empty when nothing could be
 * learnt from it: no trainable token, or an advantage that is zero or absent.
 *
 * @param merge whether turns may be joined; without it every turn is a datum, with the same gradient at more cost
 * @throws RangeError on arrays that do not fit each other: servers pad them in silence
 */
export function datumsOf(groupId: string, rollout: Rollout, merge = true): Datum[] {
  const { rolloutId, advantage } = rollout;
  if (!advantage) return [];
  const sampled = rollout.turns.flatMap((turn) => sampledOf(turn) ?? []);
  const chains = merge ? chainsOf(sampled) : sampled.flatMap((turn) => chainsOf([turn]));
  return chains.flatMap(({ turns, ids, logprobs, weights }) => {
    const datum: Datum = {
      groupId,
      rolloutId,
      turns,
      tokens: ids.slice(0, -1),
      targetTokens: ids.slice(1),
      logprobs: logprobs.slice(1),
      advantages: weights.slice(1).map((weight) => (weight === 0 ? 0 : advantage)),
      weights: weights.slice(1),
    };
    if (trainedTokens(datum) === 0) return [];
    assertFits(datum);
    return [datum];
  });
}

/** How many targets are trained: Σ weights. */
export function trainedTokens({ weights }: Datum): number {
  return weights.reduce((sum, weight) => sum + weight, 0);
}

/** Servers pad short arrays with zeros and turn what is not finite into null, so it must not get that far. */
function assertFits({ rolloutId, turns, tokens, ...aligned }: Datum): void {
  const where = `rollout ${rolloutId}, turns ${turns.join(', ')}`;
  for (const name of ['targetTokens', 'logprobs', 'advantages', 'weights'] as const) {
    const { length } = aligned[name];
    if (length !== tokens.length)
      throw new RangeError(`${where}: ${length} ${name} for ${tokens.length} tokens`);
    const odd = aligned[name].find((number) => !Number.isFinite(number));
    if (odd !== undefined) throw new RangeError(`${where}: ${odd} among ${name}`);
  }
}

/** What one step descends, whatever the trainer's reduction makes of the parts. */
export interface Normaliser {
  readonly reduction: Reduction;
  /** L₀, in tokens: the longest response, the same in every step, so that no length is favoured (Dr. GRPO). */
  readonly lengthScale: number;
}

/**
 * All datums of one step, with the constant of the objective folded into their advantages:
 *
 *   J = 1/P Σ_groups 1/G Σ_rollouts 1/L₀ Σ_tokens A
 *
 * with P the groups of the step and G the valid rollouts of each. A trainer that sums gets A/(P·G·L₀). One that takes
 * the mean of each datum's n trained tokens and then of the D datums gets A·n·D/(P·G·L₀); for it, datums without a
 * trained token would count in D, and there are none.
 *
 * @param groups that the step learns from: accepted ones, all of them in one call, as D is the step's
 * @throws RangeError on a group that is not accepted, and on arrays that do not fit each other
 */
export function foldNormaliser(groups: readonly TrajectoryGroup[], normaliser: Normaliser): Datum[] {
  const { reduction, lengthScale } = normaliser;
  if (!(lengthScale > 0)) throw new RangeError(`lengthScale is ${lengthScale}; it must be above 0`);
  const refused = groups.find(({ filter }) => !filter.accepted);
  if (refused) {
    throw new RangeError(
      `group ${refused.groupId} is not to be trained on: ${refused.filter.reasons.join(', ')}`,
    );
  }
  const parts = groups.flatMap(({ groupId, rollouts, baseline }) =>
    rollouts.flatMap((rollout) =>
      datumsOf(groupId, rollout).map((datum) => ({ datum, valid: baseline.valid })),
    ),
  );
  return parts.map(({ datum, valid }) => {
    const constant = 1 / (groups.length * valid * lengthScale);
    const factor = reduction === 'sum' ? constant : constant * trainedTokens(datum) * parts.length;
    return { ...datum, advantages: datum.advantages.map((advantage) => advantage * factor) };
  });
}

/** A tensor as the Tinker protocol writes it. */
interface WireTensor {
  readonly data: readonly number[];
  readonly dtype: 'int64' | 'float32';
  readonly shape: readonly [number];
}

/** A datum as the Tinker protocol writes it (docs/training.md, "Export format"). */
export interface WireDatum {
  readonly model_input: {
    readonly chunks: readonly [{ readonly type: 'encoded_text'; readonly tokens: readonly number[] }];
  };
  readonly loss_fn_inputs: Readonly<Record<string, WireTensor>>;
}

/**
 * The datum for the losses with behaviour log-probs (importance_sampling, ppo, cispo).
 *
 * @param sendWeights whether the server knows the key: one that takes means needs it, others refuse or ignore it
 */
export function toWire(datum: Datum, sendWeights: boolean): WireDatum {
  const tensor = (data: readonly number[], dtype: WireTensor['dtype']): WireTensor => ({
    data,
    dtype,
    shape: [data.length],
  });
  return {
    model_input: { chunks: [{ type: 'encoded_text', tokens: datum.tokens }] },
    loss_fn_inputs: {
      target_tokens: tensor(datum.targetTokens, 'int64'),
      logprobs: tensor(datum.logprobs, 'float32'),
      advantages: tensor(datum.advantages, 'float32'),
      ...(sendWeights && { weights: tensor(datum.weights, 'float32') }),
    },
  };
}
