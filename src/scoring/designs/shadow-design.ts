/** The one interface of a shadow design: which coalitions to run again for a prompt that the team has answered. */

/** Coalitions drawn for one prompt, with the probability of this draw at the moment it was made. */
export interface Drawn {
  /** Masks over the pool; bit i is the pool's i-th member. */
  readonly masks: readonly number[];
  readonly propensity: number;
}

export interface ShadowDesign {
  readonly name: 'duel' | 'leave-one-out';
  readonly summary: string;
  /** How the runs are recorded: what their tallies count for. */
  readonly design: 'duel' | 'loo';
  readonly leastMembers: number;
  /** @param uniform two numbers in [0, 1) that depend on the prompt and on nothing that came of it */
  readonly draw: (members: number, uniform: readonly [number, number]) => Drawn;
}
