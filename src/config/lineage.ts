/** Merged models are what their parents were when they were merged: a changed parent needs another merge. */
import { createHash } from 'node:crypto';
import type { Config, ModelConfig } from '../contract/config.ts';
import type { Problem } from './problem.ts';

/** Names weights wherever they are served: a model that moves to another address is the same parent. */
function weightsName({ id, revision, weights }: ModelConfig): string {
  const material = JSON.stringify([weights?.at, weights?.base, weights?.adapter, revision]);
  return `${id}@${createHash('sha256').update(material).digest('hex').slice(0, 12)}`;
}

/** What the revision of a merged model says of its parents. */
export function lineageOf(parents: readonly ModelConfig[]): string {
  return parents.map(weightsName).join(' + ');
}

export function mergeProblems(config: Config): Problem[] {
  const problems: Problem[] = [];
  const seen = new Set<string>();
  for (const model of config.models) {
    if (!model.merged) continue;
    problems.push(...parentProblems(model, model.merged.parents, config.models));
    const { method, parents } = model.merged;
    const same = JSON.stringify([method, parents.toSorted()]);
    if (seen.has(same)) {
      const message = 'another model has the same parents and method';
      problems.push({ path: `models.${model.id}.merged`, message, remedy: 'Keep one of them.' });
    }
    seen.add(same);
  }
  return [...problems, ...policyProblems(config)];
}

function parentProblems(
  { id, revision }: ModelConfig,
  parents: readonly string[],
  models: readonly ModelConfig[],
): Problem[] {
  const unknown = parents.filter((parent) => parent === id || !models.some((model) => model.id === parent));
  if (unknown.length > 0) {
    const path = `models.${id}.merged.parents`;
    const others = models.flatMap((model) => (model.id === id ? [] : model.id)).join(', ') || 'none';
    return [{ path, message: `there is no other model ${unknown[0]}`, remedy: `Use some of: ${others}.` }];
  }
  const lineage = lineageOf(parents.flatMap((parent) => models.filter((model) => model.id === parent)));
  if (revision.includes(lineage)) return [];
  return [
    {
      path: `models.${id}.revision`,
      message: `does not name the parents as they are, ${lineage}: one has changed since the merge`,
      remedy: 'Take the model out, run `consort merge`, merge again, and put in the entry that it wrote.',
    },
  ];
}

/** What is trained changes while it is served, and a merge of it would not. */
function policyProblems({ pools, systems }: Config): Problem[] {
  const trained = systems.flatMap(({ id, train }) => (train ? { id, policy: train.policy } : []));
  return pools.flatMap(({ id, merged, members }) =>
    trained
      .filter(({ policy }) => merged && members.includes(policy))
      .map(({ id: system, policy }) => ({
        path: `pools.${id}.merged`,
        message: `${policy} is trained by system ${system}, and what was merged from it would fall behind`,
        remedy: 'Take it out of this pool, or train it in no system.',
      })),
  );
}
