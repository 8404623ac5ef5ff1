/** Puts shadow evaluation around the live system. */
import { createHmac } from 'node:crypto';
import type { Config } from '../contract/config.ts';
import type { Counters } from '../contract/store.ts';
import { SYSTEM_PREFIX } from '../gateway/catalog.ts';
import { mergedFor } from '../gateway/merges.ts';
import type { Metrics } from '../gateway/metrics.ts';
import { shadowDesigns } from '../scoring/designs/index.ts';
import { Shadow } from '../scoring/shadow.ts';
import { clock, newId } from './natives.ts';
import type { RunningSystem } from './system.ts';

const TWO_48 = 2 ** 48;

export function openShadow(
  config: Config,
  { catalog, run }: Pick<RunningSystem, 'catalog' | 'run'>,
  counters: Counters,
  secret: string,
  metrics: Metrics,
): Shadow {
  const settings = new Map(config.systems.map(({ id, shadow }) => [id, shadow]));
  return new Shadow({
    run,
    counters,
    designs: shadowDesigns,
    settingsOf: (system) => settings.get(system),
    // A policy is in no pool of merged weights, so these stay what they are from one generation to the next.
    mergedFor(id, mask) {
      const system = catalog.systems.get(`${SYSTEM_PREFIX}${id}`);
      return system && mergedFor(system, mask);
    },
    random: (label) => createHmac('sha256', secret).update(label).digest().readUIntBE(0, 6) / TWO_48,
    clock,
    newId,
    onResult: (system, result) => metrics.shadowed(system, result),
  });
}
