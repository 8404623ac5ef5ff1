/** Panels of a reference game, made by chance with a seed. */
import { readFileSync } from 'node:fs';
import { uniformFloat64 } from 'pure-rand/distribution/uniformFloat64';
import { xoroshiro128plus } from 'pure-rand/generator/xoroshiro128plus';
import type { Panel, PromptRewards } from '../../src/scoring/estimators/from-prompts.ts';
import { parseGame } from '../../src/scoring/estimators/game.ts';
import type { Measured } from '../../src/scoring/estimators/measured.ts';

const fixture = new URL('../fixtures/vectors/shapley.json', import.meta.url);
const { games } = JSON.parse(readFileSync(fixture, 'utf8'));
export const pool = parseGame(games.find(({ name }: { name: string }) => name === 'llm-pool-4'));
export const MASKS4 = Array.from({ length: 15 }, (_, index) => index + 1);

/** Prompts whose coalitions succeed when a common difficulty, mixed with noise, is below their value. */
export function simulate(seed: number, prompts: number, perCluster = 1): PromptRewards[] {
  const random = xoroshiro128plus(seed);
  const draw = () => uniformFloat64(random);
  let difficulty = 0;
  return Array.from({ length: prompts }, (_, p) => {
    if (p % perCluster === 0) difficulty = draw();
    const rewards = MASKS4.map((mask) =>
      (draw() < 0.5 ? difficulty : draw()) < (pool.values[mask] ?? NaN) ? 1 : 0,
    );
    return { cluster: `c${Math.floor(p / perCluster)}`, rewards };
  });
}

export function panelOf(prompts: readonly PromptRewards[], more: Partial<Panel> = {}): Panel {
  return { players: pool.players, design: 'full', masks: MASKS4, prompts, ...more };
}

export const values = (found: { estimates: readonly Measured[] } | undefined) =>
  found?.estimates.map(({ value }) => value);
