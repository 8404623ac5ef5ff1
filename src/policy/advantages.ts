/**
 * How much better a rollout was than its group: the weight of its tokens in the gradient.
 *
 * With R₁ … R_G the rewards of the valid rollouts of one group:
 *
 * | kind      | advantage of rollout j                        |                                                     |
 * | --------- | --------------------------------------------- | --------------------------------------------------- |
 * | `centred` | R_j − mean                                    | Dr. GRPO; (G−1)/G of the gradient                   |
 * | `rloo`    | R_j − mean of the others = G/(G−1)·(R_j−mean) | unbiased (Kool et al. 2019; Ahmadian et al. 2024)   |
 * | `std`     | (R_j − mean)/(std + ε)                        | GRPO; another objective: prompts weigh by 1/std     |
 *
 * Subtracting one number from all rewards of a group, such as what the team achieves without the policy, changes no
 * advantage of any kind (docs/training.md, "What cancels").
 */
import { momentsOf, variance } from '../scoring/statistics/moments.ts';
import type { AdvantageKind } from '../contract/trajectory.ts';

/** Added to the standard deviation, in units of reward; verl's and TRL's value is of this size. */
const EPSILON = 1e-6;

export interface Advantages {
  /** In the order of the rewards; null where there is none. They sum to 0 up to rounding. */
  readonly advantages: readonly (number | null)[];
  /** Mean and unbiased standard deviation of the valid rewards; 0 where undefined. */
  readonly mean: number;
  readonly std: number;
  readonly valid: number;
  /** Nothing to learn: fewer than two valid rollouts, or all of them rewarded alike. Then every advantage is 0. */
  readonly degenerate: boolean;
}

const UNITS: Readonly<Record<AdvantageKind, (group: { valid: number; std: number }) => number>> = {
  centred: () => 1,
  rloo: ({ valid }) => valid / (valid - 1),
  std: ({ std }) => 1 / (std + EPSILON),
};

/**
 * The advantages of one group.
 *
 * @param rewards one a rollout, finite; null for an invalid one, which is left out of the mean and of everything else
 */
export function advantagesOf(rewards: readonly (number | null)[], kind: AdvantageKind): Advantages {
  const values = rewards.filter((reward) => reward !== null);
  const odd = values.find((reward) => !Number.isFinite(reward));
  if (odd !== undefined) throw new RangeError(`a reward is ${odd}`);
  const [first = 0] = values;
  // Deviations from one of the rewards, so that a constant on all of them cancels before anything is rounded.
  const moments = momentsOf(values.map((reward) => reward - first));
  const valid = values.length;
  const degenerate = values.every((reward) => reward === first) || valid < 2;
  const std = degenerate ? 0 : Math.sqrt(variance(moments));
  const unit = degenerate ? 0 : UNITS[kind]({ valid, std });
  return {
    advantages: rewards.map((reward) =>
      reward === null ? null : degenerate ? 0 : (reward - first - moments.mean) * unit,
    ),
    mean: first + moments.mean,
    std,
    valid,
    degenerate,
  };
}
