/** A system whose policy is trained, and how it is with some weights in the policy's place. */
import type { Config, SystemConfig } from '../../contract/config.ts';
import { ConsortError } from '../../contract/errors.ts';
import type { TaskRow } from '../../contract/task.ts';
import type { TrainConfig } from '../../contract/train-config.ts';
import { SYSTEM_PREFIX, type Catalog, type System } from '../../gateway/catalog.ts';
import { configAt } from '../../gateway/generations.ts';
import type { ServedPolicy } from '../../policy/sampler.ts';
import { catalogOf } from '../system.ts';

export type TrainedSystem = SystemConfig & { readonly train: TrainConfig };

/** Plans of rollouts and evaluations end with their prompt, not with a stream. */
export const UNLIMITED = Number.MAX_SAFE_INTEGER;

/** @throws `usage` when the system does not train */
export function trainedSystem(config: Config, id: string): TrainedSystem {
  const system = config.systems.find((one) => one.id === id);
  if (system?.train) return { ...system, train: system.train };
  const trained = config.systems.filter(({ train }) => train).map((one) => one.id);
  const names = trained.join(', ') || 'none; docs/training.md shows the fields';
  throw new ConsortError('usage', [`system ${id} has no train section; those that do: ${names}`]);
}

export interface SystemAt {
  readonly catalog: Catalog;
  readonly system: System;
}

/** @param adapter null for the configured model itself */
export function systemAt(
  config: Config,
  { id, train }: TrainedSystem,
  adapter: ServedPolicy['adapter'],
): SystemAt {
  const at = (name: string, sha256: string) =>
    configAt(config, new Map([[train.policy, { servedAs: name, version: 0, artifact: { sha256 } }]]));
  const catalog = catalogOf(adapter ? at(adapter.servedAs, adapter.sha256) : config);
  const system = catalog.systems.get(SYSTEM_PREFIX + id);
  if (!system) throw new TypeError(`no system ${id}`);
  return { catalog, system };
}

/**
 * A gate that looks at what was trained on would promote whatever was learned by heart.
 *
 * @throws `tasks_invalid` naming a task whose cluster or question is in both
 */
export function assertApart(
  prompts: readonly TaskRow[],
  holdout: readonly TaskRow[],
  { prompts: file, holdout: own }: TrainConfig,
): void {
  const clusterOf = ({ cluster, id }: TaskRow) => cluster ?? id;
  const questionOf = ({ prompt, messages }: TaskRow) =>
    JSON.stringify(messages ?? [{ role: 'user', content: prompt }]);
  const clusters = new Set(prompts.map(clusterOf));
  const questions = new Set(prompts.map(questionOf));
  const both = holdout.find((row) => clusters.has(clusterOf(row)) || questions.has(questionOf(row)));
  if (!both) return;
  const what = clusters.has(clusterOf(both)) ? clusterOf(both) : 'its question';
  throw new ConsortError('tasks_invalid', [own, both.id, `${what} is also in ${file}`]);
}
