/** What each method of merging needs, as mergekit 0.1 (whole models) and PEFT 0.18 and later (LoRA adapters) have it. */
import type { MergeMethod } from '../../contract/merge.ts';

/** `weight` and `density` go with each parent, the others with the whole. */
export type MergeParameter = 'weight' | 'density' | 'lambda' | 't';

export interface MethodNeeds {
  /** What it takes for whole models; absent where mergekit does not have it. */
  readonly models?: readonly MergeParameter[];
  /** What it takes for adapters; absent where PEFT does not have it. */
  readonly adapters?: readonly MergeParameter[];
  readonly mostParents?: number;
  /** Which model mergekit takes for the base: what the parents were trained from, the first of them, or none. */
  readonly mergekitBase: 'base' | 'first' | 'none';
}

const TASK_VECTORS = { mergekitBase: 'base' } as const;

export const METHODS: Readonly<Record<MergeMethod, MethodNeeds>> = {
  linear: { models: ['weight'], adapters: ['weight'], mergekitBase: 'none' },
  slerp: { models: ['t'], mostParents: 2, mergekitBase: 'first' },
  task_arithmetic: { models: ['weight', 'lambda'], ...TASK_VECTORS },
  ties: { models: ['weight', 'density', 'lambda'], adapters: ['weight', 'density'], ...TASK_VECTORS },
  dare_linear: { models: ['weight', 'density', 'lambda'], adapters: ['weight', 'density'], ...TASK_VECTORS },
  dare_ties: { models: ['weight', 'density', 'lambda'], adapters: ['weight', 'density'], ...TASK_VECTORS },
  model_stock: { models: [], ...TASK_VECTORS },
  cat: { adapters: ['weight'], ...TASK_VECTORS },
  svd: { adapters: ['weight'], ...TASK_VECTORS },
  ties_svd: { adapters: ['weight', 'density'], ...TASK_VECTORS },
  dare_linear_svd: { adapters: ['weight', 'density'], ...TASK_VECTORS },
  dare_ties_svd: { adapters: ['weight', 'density'], ...TASK_VECTORS },
  magnitude_prune: { adapters: ['weight', 'density'], ...TASK_VECTORS },
  magnitude_prune_svd: { adapters: ['weight', 'density'], ...TASK_VECTORS },
};
