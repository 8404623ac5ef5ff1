/**
 * The simulated pool: five synthetic models with known ground truth, for trying things out, for load, and for
 * checking estimators against exact values. SIMULATED: nothing here is a measurement of any language model.
 */

export interface SimModel {
  readonly name: string;
  /** Probability of a right first answer, by kind of task. */
  readonly skill: Readonly<Record<SimKind, number>>;
  /** Probability of moving to right (up) or to wrong (down) when all peers are there. */
  readonly persuadeUp: number;
  readonly persuadeDown: number;
  /** Output tokens: log-normal around `mean`. */
  readonly tokens: { readonly mean: number; readonly sigma: number };
  /** Time to first token: log-normal, mu in ln(ms). */
  readonly firstToken: { readonly mu: number; readonly sigma: number };
  readonly tokensPerSecond: number;
  readonly fail: {
    readonly http500: number;
    readonly http429: number;
    readonly hang: number;
    readonly malformed: number;
    readonly refusal: number;
  };
}

export type SimKind = 'reason' | 'code' | 'science';

export interface KindLaw {
  /** Share in the mixture. */
  readonly weight: number;
  /** Correlation of the models' errors (one-factor Gaussian copula). */
  readonly rho: number;
  /** Probability that all wrong models share one wrong answer. */
  readonly misconception: number;
  /** How many wrong answers there are. */
  readonly wrongAnswers: number;
}

export const KINDS: Readonly<Record<SimKind, KindLaw>> = {
  reason: { weight: 0.4, rho: 0.3, misconception: 0.35, wrongAnswers: 4 },
  code: { weight: 0.3, rho: 0.15, misconception: 0.1, wrongAnswers: 8 },
  science: { weight: 0.3, rho: 0.45, misconception: 0.5, wrongAnswers: 3 },
};

export const SIM_MODELS: readonly SimModel[] = [
  {
    name: 'atlas',
    skill: { reason: 0.74, code: 0.62, science: 0.7 },
    persuadeUp: 0.55,
    persuadeDown: 0.15,
    tokens: { mean: 180, sigma: 0.45 },
    firstToken: { mu: 5.7, sigma: 0.25 },
    tokensPerSecond: 70,
    fail: { http500: 0.004, http429: 0.006, hang: 0.001, malformed: 0.01, refusal: 0.002 },
  },
  {
    name: 'boreas',
    skill: { reason: 0.58, code: 0.81, science: 0.44 },
    persuadeUp: 0.35,
    persuadeDown: 0.1,
    tokens: { mean: 320, sigma: 0.6 },
    firstToken: { mu: 5.4, sigma: 0.35 },
    tokensPerSecond: 95,
    fail: { http500: 0.006, http429: 0.01, hang: 0.002, malformed: 0.02, refusal: 0 },
  },
  {
    name: 'cygnus',
    skill: { reason: 0.52, code: 0.35, science: 0.76 },
    persuadeUp: 0.6,
    persuadeDown: 0.3,
    tokens: { mean: 240, sigma: 0.5 },
    firstToken: { mu: 5.95, sigma: 0.3 },
    tokensPerSecond: 55,
    fail: { http500: 0.003, http429: 0.004, hang: 0.001, malformed: 0.015, refusal: 0.02 },
  },
  {
    name: 'dingo',
    skill: { reason: 0.47, code: 0.4, science: 0.42 },
    persuadeUp: 0.85,
    persuadeDown: 0.75,
    tokens: { mean: 90, sigma: 0.4 },
    firstToken: { mu: 4.6, sigma: 0.2 },
    tokensPerSecond: 180,
    fail: { http500: 0.002, http429: 0.002, hang: 0, malformed: 0.05, refusal: 0 },
  },
  {
    name: 'echo',
    skill: { reason: 0.3, code: 0.25, science: 0.28 },
    persuadeUp: 0.05,
    persuadeDown: 0.05,
    tokens: { mean: 700, sigma: 0.7 },
    firstToken: { mu: 5.1, sigma: 0.5 },
    tokensPerSecond: 120,
    fail: { http500: 0.01, http429: 0.02, hang: 0.005, malformed: 0.08, refusal: 0 },
  },
];

/** Prices in USD per million tokens, as the simulated pool declares them. */
export const SIM_PRICES: Readonly<Record<string, { input: number; output: number }>> = {
  atlas: { input: 2, output: 8 },
  boreas: { input: 0.9, output: 3.6 },
  cygnus: { input: 1.2, output: 4.8 },
  dingo: { input: 0.1, output: 0.4 },
  echo: { input: 0.1, output: 0.4 },
};
