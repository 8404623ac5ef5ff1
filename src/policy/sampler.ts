/**
 * The newest weights where rollouts are sampled: exported by the trainer, loaded on every replica under a name of
 * their own, and gone when the next ones are there. These versions are of the run alone; clients never see them.
 */
import { rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { ServingFleet } from './serving/fleet.ts';
import { digestOf } from './release/verify.ts';
import type { TrainerPort } from './trainers/trainer.ts';

/** A policy's weights as a fleet serves them. */
export interface ServedPolicy {
  /** The step after which they were exported. */
  readonly version: number;
  /** Null for the base model itself. */
  readonly adapter: { readonly servedAs: string; readonly sha256: string } | null;
}

export interface SamplerParts {
  readonly trainer: Pick<TrainerPort, 'exportPolicy'>;
  readonly fleet: ServingFleet;
  /** Folder of the fleet's adapters, the same path on every replica. */
  readonly directory: string;
  readonly run: string;
}

export class Sampler {
  readonly #parts: SamplerParts;
  #served: ServedPolicy | undefined;

  constructor(parts: SamplerParts) {
    this.#parts = parts;
  }

  /**
   * The weights after `step`, loaded everywhere; those before them are unloaded, so nothing may be asking them any more.
   *
   * @throws `serving_*`, `trainer_*`
   */
  async at(step: number): Promise<ServedPolicy> {
    if (this.#served?.version === step) return this.#served;
    const before = this.#served;
    const served = step === 0 ? { version: 0, adapter: null } : await this.#load(step);
    this.#served = served;
    if (before) await this.#drop(before);
    return served;
  }

  /** Unloads what is served, for the end of a run. */
  async close(): Promise<void> {
    if (this.#served) await this.#drop(this.#served);
    this.#served = undefined;
  }

  /** The file name of the weights after a step. */
  #nameOf(step: number): string {
    return `${this.#parts.run}-s${String(step).padStart(6, '0')}`;
  }

  async #load(step: number): Promise<ServedPolicy> {
    const { trainer, fleet, directory } = this.#parts;
    const servedAs = this.#nameOf(step);
    const path = join(directory, servedAs);
    // An export is renamed into its place when it is whole: what is there was left by a run that was cut off.
    if (!(await exists(path))) await trainer.exportPolicy(servedAs, path);
    await fleet.load({ name: servedAs, path });
    return { version: step, adapter: { servedAs, sha256: await digestOf(path) } };
  }

  async #drop({ version, adapter }: ServedPolicy): Promise<void> {
    if (!adapter) return;
    await this.#parts.fleet.unload(adapter.servedAs);
    await rm(join(this.#parts.directory, this.#nameOf(version)), { recursive: true, force: true });
  }
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}
