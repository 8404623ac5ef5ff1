/** The list of trainers. */
import { TinkerTrainer, type TinkerOptions } from './tinker.ts';
import type { TrainerPort } from './trainer.ts';

export interface TrainerKind {
  /** `kind` in the config. */
  readonly kind: string;
  readonly summary: string;
  readonly open: (options: TinkerOptions) => TrainerPort;
}

export const trainers: readonly TrainerKind[] = [
  {
    kind: 'tinker',
    summary: 'a server of the Tinker training protocol, over HTTP',
    open: (options) => new TinkerTrainer(options),
  },
];
