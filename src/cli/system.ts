/** Builds the running system from a configuration: catalog, upstreams, engine. One for every process and command. */
import type { RunSystem } from '../contract/capabilities.ts';
import type { Config } from '../contract/config.ts';
import type { Outcome } from '../contract/outcome.ts';
import type { Member } from '../contract/plan.ts';
import { makeCatalog, memberOf, type Catalog } from '../gateway/catalog.ts';
import { fallback } from '../gateway/engine/fallback.ts';
import { hedge, type Hedging } from '../gateway/engine/hedge.ts';
import { RetryBudget } from '../gateway/engine/retry-budget.ts';
import { retry, type Retries } from '../gateway/engine/retry.ts';
import { createRunSystem } from '../gateway/engine/run.ts';
import type { Metrics } from '../gateway/metrics.ts';
import { protocols } from '../gateway/protocols/index.ts';
import { single } from '../gateway/protocols/single.ts';
import { openFleet, type Circuit, type Fleet } from '../gateway/upstreams/fleet.ts';
import { clock, newId } from './natives.ts';

export interface SystemHooks {
  readonly secret: string;
  readonly onOutcome: (outcome: Outcome) => void | Promise<unknown>;
  readonly onRetry: (alias: string, code: string) => void;
  readonly onRetryWithheld?: (alias: string) => void;
  readonly onHedge?: (alias: string, hasWon: boolean) => void;
  readonly onFallback?: (alias: string, to: string) => void;
  readonly onCircuit?: (circuit: Circuit) => void;
}

/** What happens on the way to the models, counted. */
export function countedBy({ upstreams: metrics }: Metrics): Omit<SystemHooks, 'secret' | 'onOutcome'> {
  return {
    onRetry: (alias, code) => metrics.retried(alias, code),
    onRetryWithheld: (alias) => metrics.retryWithheld(alias),
    onHedge: (alias, hasWon) => metrics.hedged(alias, hasWon),
    onFallback: (alias, to) => metrics.fellBack(alias, to),
    onCircuit: (circuit) => metrics.circuitTurned(circuit),
  };
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

interface Patience extends Retries {
  readonly hedging?: Hedging;
}

/** How each model is asked again; retries and second calls share one budget. */
function patienceOf({ models }: Config): (alias: string) => Patience {
  const now = () => clock.elapsed();
  const known = new Map<string, Patience>();
  for (const { id, retries, retryShare, hedgeAfterMs: afterMs } of models) {
    const budget = new RetryBudget(retryShare, now);
    known.set(id, {
      most: retries,
      budget,
      ...(afterMs !== undefined && { hedging: { afterMs, budget } }),
    });
  }
  const none = { most: 0, budget: new RetryBudget(0, now) };
  return (alias) => known.get(alias) ?? none;
}

function standInsOf({ models }: Config): ReadonlyMap<string, readonly Member[]> {
  const members = new Map(models.map((model) => [model.id, memberOf(model)]));
  return new Map(
    models.map(({ id, fallbacks }) => [id, fallbacks.flatMap((alias) => members.get(alias) ?? [])]),
  );
}

export function openSystem(config: Config, hooks: SystemHooks): RunningSystem {
  const catalog = catalogOf(config);
  const fleet = openFleet(config.models, hooks);
  const patience = patienceOf(config);
  const retried = retry({
    retriesOf: patience,
    isElsewhere: fleet.isElsewhere,
    jitter: () => Math.random(),
    onRetry: hooks.onRetry,
    onWithheld: (alias) => hooks.onRetryWithheld?.(alias),
  })(fleet.send);
  const send = hedge({
    hedgingOf: (alias) => patience(alias).hedging,
    onHedge: (alias, hasWon) => hooks.onHedge?.(alias, hasWon),
  })(retried);
  const standIns = standInsOf(config);
  const run = createRunSystem({
    protocols,
    send,
    fallback: fallback({
      fallbacksOf: (alias) => standIns.get(alias) ?? [],
      onFallback: (alias, to) => hooks.onFallback?.(alias, to),
    }),
    clock,
    newId,
    secret: hooks.secret,
    onOutcome: hooks.onOutcome,
  });
  return { catalog, run, circuits: fleet.circuits, close: fleet.close };
}
