/** Draws the next token. Done here and not in llama.cpp, so that one seed means one text on every machine. */
import type { Token } from 'node-llama-cpp';

/** The model's distribution at temperature 1, most probable token first. */
export type Distribution = ReadonlyMap<Token, number>;

/** JSON has no minus infinity; this is what OpenAI and vLLM write for a token that was out of reach. */
const outOfReach = -9999;

export function logprobOf(distribution: Distribution, token: Token): number {
  const probability = distribution.get(token) ?? 0;
  return probability > 0 ? Math.log(probability) : outOfReach;
}

/** The part of a distribution that may be drawn from; what is not allowed is out of reach. */
export function among(distribution: Distribution, allowed: readonly Token[] | undefined): Distribution {
  if (!allowed) return distribution;
  const entries = allowed.map((token): [Token, number] => [
    token,
    distribution.get(token) ?? Number.MIN_VALUE,
  ]);
  return new Map(entries.toSorted(([, a], [, b]) => b - a));
}

export interface Sampling {
  temperature: number;
  topP: number;
}

export function sample(
  distribution: Distribution,
  { temperature, topP }: Sampling,
  chance: () => number,
): Token {
  const [[best, highest] = []] = distribution;
  if (best === undefined || highest === undefined) throw new Error('the model gave an empty distribution');
  if (temperature === 0) return best;

  const weights: [Token, number][] = [];
  for (const [token, probability] of distribution) {
    weights.push([token, (probability / highest) ** (1 / temperature)]);
  }
  // In the order of their ids: calls that share a batch change last digits, and where two tokens are nearly as
  // probable that would change their order, and with it what a seed draws.
  const kept = nucleus(weights, topP).toSorted(([a], [b]) => a - b);
  let left = chance() * total(kept);
  for (const [token, weight] of kept) {
    left -= weight;
    if (left < 0) return token;
  }
  return best;
}

/** The fewest most probable tokens that hold `topP` of the weight; at least one. */
function nucleus(weights: [Token, number][], topP: number): [Token, number][] {
  if (topP === 1) return weights;
  const wanted = topP * total(weights);
  let held = 0;
  const end = weights.findIndex(([, weight]) => (held += weight) >= wanted);
  return end === -1 ? weights : weights.slice(0, end + 1);
}

function total(weights: readonly [Token, number][]): number {
  return weights.reduce((sum, [, weight]) => sum + weight, 0);
}

/** splitmix32: any number as a seed, an even stream of chance in [0, 1). */
export function seededChance(seed: number): () => number {
  // Both halves of a 53-bit seed count.
  let state = (seed | 0) ^ Math.imul(Math.floor(seed / 2 ** 32) | 0, 0x9e3779b1);
  return () => {
    state = (state + 0x9e3779b9) | 0;
    let mixed = Math.imul(state ^ (state >>> 16), 0x21f0aaad);
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97);
    return ((mixed ^ (mixed >>> 15)) >>> 0) / 2 ** 32;
  };
}
