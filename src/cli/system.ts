/** Builds the running system from a configuration: catalog, upstreams, engine. One for every process and command. */
import type { RunSystem } from '../contract/capabilities.ts';
import type { Config } from '../contract/config.ts';
import type { Outcome } from '../contract/outcome.ts';
import { makeCatalog, type Catalog } from '../gateway/catalog.ts';
import { retry } from '../gateway/engine/retry.ts';
import { createRunSystem } from '../gateway/engine/run.ts';
import { protocols } from '../gateway/protocols/index.ts';
import { single } from '../gateway/protocols/single.ts';
import { openFleet } from '../gateway/upstreams/fleet.ts';
import { clock, newId } from './natives.ts';

export interface SystemHooks {
  readonly secret: string;
  readonly onOutcome: (outcome: Outcome) => void | Promise<unknown>;
  readonly onRetry: (alias: string, code: string) => void;
}

export interface RunningSystem {
  readonly catalog: Catalog;
  readonly run: RunSystem;
  readonly close: () => Promise<void>;
}

export function catalogOf(config: Config): Catalog {
  return makeCatalog(config, protocols, single);
}

export function openSystem(config: Config, hooks: SystemHooks): RunningSystem {
  const catalog = catalogOf(config);
  const fleet = openFleet(config.models);
  const retries = new Map(config.models.map(({ id, retries: count }) => [id, count]));
  const send = retry({
    retriesOf: (alias) => retries.get(alias) ?? 0,
    jitter: () => Math.random(),
    onRetry: hooks.onRetry,
  })(fleet.send);
  const run = createRunSystem({
    protocols,
    send,
    clock,
    newId,
    secret: hooks.secret,
    onOutcome: hooks.onOutcome,
  });
  return { catalog, run, close: fleet.close };
}
