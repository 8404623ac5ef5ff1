/** All indices of a complete game, exact up to rounding. */
import { coalitionSize, grandMask, hasPlayer } from './coalition.ts';
import {
  banzhaf,
  centred,
  efficient,
  individual,
  individualMarginal,
  loo,
  marginalOfSize,
  shapley,
  shapleyCompositional,
  twoEnded,
  type PlayerCoefficients,
} from './coefficients.ts';
import { gameOf, type Game } from './game.ts';
import {
  banzhafInteraction,
  interactionMatrices,
  shapleyInteraction,
  synergyEmpty,
  synergyGrand,
} from './interactions.ts';

/** Arrays follow `players`; matrices are symmetric with diagonal 0, which means "not defined". */
export interface Indices {
  readonly shapley: number[];
  readonly loo: number[];
  readonly banzhaf: number[];
  readonly individual: number[];
  readonly individualMarginal: number[];
  /** `[i][s]`: mean marginal of player i into coalitions of s others. */
  readonly marginalBySize: number[][];
  readonly shapleyCentered: number[];
  /** NaN (`null` in JSON) for a single player. */
  readonly shapleyCompositional: number[];
  readonly twoEnded: number[];
  readonly twoEndedProjected: number[];
  readonly shapleyInteraction: number[][];
  readonly banzhafInteraction: number[][];
  readonly synergyEmpty: number[][];
  readonly synergyGrand: number[][];
  /** v(N) less the best single player. */
  readonly synergyOverBest: number;
  /** Sum of leave-one-out less v(N) - v(empty): negative for substitutes, positive for complements. */
  readonly looGap: number;
  /** v(N) - v(empty), which the Shapley values share out. */
  readonly efficiencyTotal: number;
}

/**
 * Every index of a game, O(n^2 2^n) time. ConsortError `game_invalid` when a value is missing or not finite, or there
 * are more than 20 players.
 */
export function allIndices(game: Game): Indices {
  const { players, values: v } = gameOf(game.players, game.values);
  const n = players.length;
  const sums = sumsBySize(game);
  const of = (coefficients: PlayerCoefficients) => applyCoefficients(sums, coefficients);
  const matrices = interactionMatrices(n, v, [
    shapleyInteraction(n),
    banzhafInteraction(n),
    synergyEmpty(n),
    synergyGrand(n),
  ]);
  const [sii = [], banzhafPairs = [], empty = [], grand = []] = matrices;
  const total = (v[grandMask(n)] ?? NaN) - (v[0] ?? NaN);
  const [leaveOneOut, alone] = [of(loo(n)), of(individual(n))];
  const bySize = Array.from({ length: n }, (_, s) => of(marginalOfSize(n, s)));
  return {
    shapley: of(shapley(n)),
    loo: leaveOneOut,
    banzhaf: of(banzhaf(n)),
    individual: alone,
    individualMarginal: of(individualMarginal(n)),
    marginalBySize: players.map((_, i) => bySize.map((marginals) => marginals[i] ?? NaN)),
    shapleyCompositional: of(shapleyCompositional(n)),
    twoEnded: of(twoEnded(n)),
    shapleyCentered: of(centred(n, shapley(n))),
    twoEndedProjected: of(efficient(n, twoEnded(n))),
    shapleyInteraction: sii,
    banzhafInteraction: banzhafPairs,
    synergyEmpty: empty,
    synergyGrand: grand,
    synergyOverBest: (v[grandMask(n)] ?? NaN) - Math.max(...alone),
    looGap: leaveOneOut.reduce((sum, value) => sum + value, 0) - total,
    efficiencyTotal: total,
  };
}

/** The functional with these coefficients, for every player of a complete game. */
export function playerIndex(game: Game, coefficients: PlayerCoefficients): number[] {
  return applyCoefficients(sumsBySize(game), coefficients);
}

/** `own[i][s]` and `other[i][s]`: sums of v over the coalitions of size s with and without player i. One pass. */
interface SumsBySize {
  readonly own: Float64Array[];
  readonly other: Float64Array[];
}

function sumsBySize({ players, values }: Game): SumsBySize {
  const own = players.map(() => new Float64Array(players.length + 1));
  const other = players.map(() => new Float64Array(players.length + 1));
  values.forEach((value, mask) => {
    const size = coalitionSize(mask);
    for (let i = 0; i < players.length; i += 1) (hasPlayer(mask, i) ? own : other)[i]![size]! += value;
  });
  return { own, other };
}

function applyCoefficients({ own, other }: SumsBySize, coefficients: PlayerCoefficients): number[] {
  return own.map((sums, i) => {
    let total = 0;
    for (let s = 0; s < sums.length; s += 1) {
      if (s > 0) total += (coefficients.own[s] ?? 0) * (sums[s] ?? 0);
      if (s < sums.length - 1) total += (coefficients.other[s] ?? 0) * (other[i]?.[s] ?? 0);
    }
    return total;
  });
}
