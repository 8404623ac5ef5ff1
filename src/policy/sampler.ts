/**
 * The newest weights where rollouts are sampled: exported by the trainer, loaded on every replica under a name of
 * their own, and gone when the next ones are there. These versions are of the run alone; clients never see them.
 */
import { readdir, rm, stat } from 'node:fs/promises';
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
   * The weights after `step`, loaded everywhere, on replicas that forgot them too. All others of the run are unloaded,
   * those that a process left that died among them: nothing may be asking them any more.
   *
   * @throws `serving_*`, `trainer_*`
   */
  async at(step: number): Promise<ServedPolicy> {
    const served = step === 0 ? { version: 0, adapter: null } : await this.#load(step);
    this.#served = served;
    for (const name of await this.#leftBeside(served)) await this.#drop(name);
    return served;
  }

  /** Unloads what is served, for the end of a run. */
  async close(): Promise<void> {
    const name = this.#served?.adapter?.servedAs;
    if (name !== undefined) await this.#drop(name);
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

  async #leftBeside({ adapter }: ServedPolicy): Promise<Set<string>> {
    const { fleet, directory, run } = this.#parts;
    const loaded = (await fleet.loaded()).flatMap(({ adapters }) => adapters.map(({ name }) => name));
    const files = await readdir(directory).catch(() => []);
    const isOwn = (name: string) =>
      name.startsWith(`${run}-s`) && /^\d{6,}$/.test(name.slice(run.length + 2));
    return new Set([...loaded, ...files].filter((name) => isOwn(name) && name !== adapter?.servedAs));
  }

  async #drop(name: string): Promise<void> {
    await this.#parts.fleet.unload(name);
    await rm(join(this.#parts.directory, name), { recursive: true, force: true });
  }
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}
