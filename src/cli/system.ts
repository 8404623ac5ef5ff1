/** Builds the running system from a configuration: catalog, upstreams, engine. One for every process and command. */
import type { RunSystem } from '../contract/capabilities.ts';
import type { Config } from '../contract/config.ts';
import type { Outcome } from '../contract/outcome.ts';
import { makeCatalog, type Catalog } from '../gateway/catalog.ts';
import { RetryBudget } from '../gateway/engine/retry-budget.ts';
import { retry, type Retries } from '../gateway/engine/retry.ts';
import { createRunSystem } from '../gateway/engine/run.ts';
import { protocols } from '../gateway/protocols/index.ts';
import { single } from '../gateway/protocols/single.ts';
import { openFleet, type Circuit, type Fleet } from '../gateway/upstreams/fleet.ts';
import { clock, newId } from './natives.ts';

export interface SystemHooks {
  readonly secret: string;
  readonly onOutcome: (outcome: Outcome) => void | Promise<unknown>;
  readonly onRetry: (alias: string, code: string) => void;
  readonly onRetryWithheld?: (alias: string) => void;
  readonly onCircuit?: (circuit: Circuit) => void;
}

export interface RunningSystem {
  readonly catalog: Catalog;
  readonly run: RunSystem;
  readonly circuits: Fleet['circuits'];
  readonly close: () => Promise<void>;
}

export function catalogOf(config: Config): Catalog {
  return makeCatalog(config, protocols, single);
}

function retriesOf({ models }: Config): (alias: string) => Retries {
  const now = () => clock.elapsed();
  const known = new Map(
    models.map(({ id, retries, retryShare }) => [
      id,
      { most: retries, budget: new RetryBudget(retryShare, now) },
    ]),
  );
  const none = { most: 0, budget: new RetryBudget(0, now) };
  return (alias) => known.get(alias) ?? none;
}

export function openSystem(config: Config, hooks: SystemHooks): RunningSystem {
  const catalog = catalogOf(config);
  const fleet = openFleet(config.models, hooks);
  const send = retry({
    retriesOf: retriesOf(config),
    isElsewhere: fleet.isElsewhere,
    jitter: () => Math.random(),
    onRetry: hooks.onRetry,
    onWithheld: (alias) => hooks.onRetryWithheld?.(alias),
  })(fleet.send);
  const run = createRunSystem({
    protocols,
    send,
    clock,
    newId,
    secret: hooks.secret,
    onOutcome: hooks.onOutcome,
  });
  return { catalog, run, circuits: fleet.circuits, close: fleet.close };
}
