/** What members think of the next token, and drawing one from their sum. Pure numbers: no calls. */
import type { Sampling } from '../../contract/chat.ts';

/** One member's log-probabilities of the next token. */
export interface Values {
  readonly alias: string;
  readonly known: ReadonlyMap<number, number>;
  /** No token that is missing among the likeliest can be likelier than this. */
  readonly floor: number;
}

/** What endpoints write for a token that is out of reach: a floor as any other. */
const OUT_OF_REACH = -9999;

export type Scores = ReadonlyMap<number, number>;

/** Which tokens can come, and what each is worth: log-probabilities up to a constant. */
export interface Mixture {
  readonly candidates: (values: readonly Values[]) => ReadonlySet<number>;
  readonly score: (values: readonly Values[], candidates: ReadonlySet<number>) => Scores;
}

export function floorOf(likeliest: ReadonlyMap<number, number>): number {
  return Math.min(0, ...likeliest.values());
}

/** The weighted mean of the members' log-probabilities, the weights made to sum to 1 over those who are there. */
export function fusionOf(weightOf: (alias: string) => number): Mixture {
  return {
    candidates: (values) => new Set(values.flatMap(({ known }) => [...known.keys()])),
    score(values, candidates) {
      const sum = values.reduce((total, { alias }) => total + weightOf(alias), 0);
      const scoreOf = (id: number) =>
        values.reduce(
          (total, { alias, known, floor }) => total + (weightOf(alias) / sum) * (known.get(id) ?? floor),
          0,
        );
      return new Map([...candidates].map((id) => [id, scoreOf(id)]));
    },
  };
}

function valueOf(values: Values | undefined, id: number): { logprob: number; isFloor: boolean } {
  const logprob = values?.known.get(id) ?? values?.floor ?? 0;
  return { logprob, isFloor: !values?.known.has(id) || logprob <= OUT_OF_REACH };
}

export interface Contrast {
  /** How many of the strongest are set against as many of the weakest. */
  readonly pairs: number;
  readonly lambda: number;
  /** Least probability of a candidate, as a share of the likeliest's. */
  readonly plausible: number;
}

/**
 * The strongest member's log-probabilities, plus what the stronger ones think more of a token than the weaker ones. A
 * difference in which one side is only a floor is never counted in a token's favour.
 *
 * @returns a mixture that takes its values strongest first
 */
export function contrastOf({ pairs, lambda, plausible }: Contrast): Mixture {
  return {
    candidates([strongest]) {
      const known = [...(strongest?.known ?? [])];
      const least = Math.max(...known.map(([, logprob]) => logprob)) + Math.log(plausible);
      return new Set(known.filter(([, logprob]) => logprob >= least).map(([id]) => id));
    },
    score(values, candidates) {
      const sides = Math.min(pairs, Math.floor(values.length / 2));
      const [strongest] = values;
      const difference = (id: number, pair: number) => {
        const [strong, weak] = [values[pair], values.at(-1 - pair)];
        const [more, less] = [valueOf(strong, id), valueOf(weak, id)];
        const gap = more.logprob - less.logprob;
        return more.isFloor || less.isFloor ? Math.min(0, gap) : gap;
      };
      const scoreOf = (id: number) => {
        let total = strongest?.known.get(id) ?? -Infinity;
        for (let pair = 0; pair < sides; pair++) total += lambda * difference(id, pair);
        return total;
      };
      return new Map([...candidates].map((id) => [id, scoreOf(id)]));
    },
  };
}

/**
 * Draws a token: the best at temperature 0, else by temperature and nucleus. Equal scores go by the lower id, so that
 * nothing depends on who was heard first.
 *
 * @param chance in [0, 1)
 */
export function draw(scores: Scores, { temperature = 1, top_p = 1 }: Sampling, chance: number): number {
  const ordered = [...scores].toSorted(([a, x], [b, y]) => y - x || a - b);
  const [best] = ordered;
  if (!best) throw new TypeError('a token was drawn from nothing');
  if (temperature === 0) return best[0];
  const weights = ordered.map(([id, score]) => [id, Math.exp((score - best[1]) / temperature)] as const);
  const total = weights.reduce((sum, [, weight]) => sum + weight, 0);
  let held = 0;
  const end = weights.findIndex(([, weight]) => (held += weight) >= top_p * total);
  const nucleus = end === -1 ? weights : weights.slice(0, end + 1);
  let left = chance * nucleus.reduce((sum, [, weight]) => sum + weight, 0);
  for (const [id, weight] of nucleus) {
    left -= weight;
    if (left < 0) return id;
  }
  return best[0];
}
