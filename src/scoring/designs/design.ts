/** The one interface of a design: which coalitions to run for a prompt. */

export interface Design {
  readonly name: string;
  /** What it costs and what it can estimate, for help texts. */
  readonly summary: string;
  /** Larger pools are refused: too many runs a prompt. */
  readonly mostMembers: number;
  /** Masks over the pool, distinct and ascending; bit i is the pool's i-th member. */
  readonly masks: (members: number) => number[];
}
