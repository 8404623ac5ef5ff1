/**
 * Generations: what is made from the configuration and the live releases is built whole and swapped whole, never
 * changed. A plan is made from one generation and carries its members, so all of its calls name one version of a
 * policy, however long it runs; only new plans see the next generation. The store is asked off the hot path.
 */
import type { Config, ModelConfig } from '../contract/config.ts';
import type { Release } from '../contract/release.ts';
import type { Releases } from '../contract/store.ts';
import type { Catalog } from './catalog.ts';
import { dialectOf } from './upstreams/fleet.ts';

/** How soon after a change at the latest new plans follow it, if the store answers at once. */
export const FOLLOW_MS = 1_000;

export interface GenerationParts {
  readonly config: Config;
  readonly build: (config: Config) => Catalog;
  readonly releases: Pick<Releases, 'policies' | 'live'>;
  /** An alias now stands for another version; null when for the configured model itself. */
  readonly onChange: (policy: string, release: Release | null) => void;
  /** The store could not be asked: the current generation stays. Called once until it can be asked again. */
  readonly onStale: (error: unknown) => void;
}

type Live = ReadonlyMap<string, Release>;

/** Weights as far as a plan names them. */
export interface Served extends Pick<Release, 'servedAs' | 'version'> {
  readonly artifact: Pick<Release['artifact'], 'sha256'>;
}

/** The configuration with aliases at these versions; a learner plans with one that is not live yet. */
export function configAt(config: Config, live: ReadonlyMap<string, Served>): Config {
  return { ...config, models: config.models.map((model) => servedBy(model, live.get(model.id))) };
}

/** The weights are part of the revision: an alias at other weights starts other statistics. */
function servedBy(model: ModelConfig, release: Served | undefined): ModelConfig {
  if (!release) return model;
  return {
    ...model,
    model: release.servedAs,
    revision: `${model.revision}@${release.version}:${release.artifact.sha256}`,
  };
}

function sameWeights(a: Release | undefined, b: Release | undefined): boolean {
  return a?.servedAs === b?.servedAs && a?.artifact.sha256 === b?.artifact.sha256;
}

export class Generations {
  readonly #parts: GenerationParts;
  /** Aliases that can follow a release. */
  readonly #aliases: readonly string[];
  #live: Live = new Map();
  #catalog: Catalog;
  #isStale = false;
  #timer: NodeJS.Timeout | undefined;
  #looking: Promise<void> | undefined;
  #isClosed = false;

  constructor(parts: GenerationParts) {
    this.#parts = parts;
    const real = parts.config.models.filter((model) => !dialectOf(model).simulated);
    this.#aliases = real.map(({ id }) => id);
    this.#catalog = parts.build(parts.config);
  }

  /** The current generation. Take it once for a plan. */
  readonly catalog = (): Catalog => this.#catalog;

  get isStale(): boolean {
    return this.#isStale;
  }

  /** Live versions by alias. */
  get versions(): ReadonlyMap<string, number> {
    return new Map([...this.#live].map(([alias, { version }]) => [alias, version]));
  }

  /** Looks at the store once; looks that overlap are one. Never rejects. */
  refresh(): Promise<void> {
    this.#looking ??= this.#look().finally(() => (this.#looking = undefined));
    return this.#looking;
  }

  /** Looks again and again, each time `everyMs` after the look before has ended. */
  follow(everyMs = FOLLOW_MS): void {
    if (this.#isClosed || this.#aliases.length === 0) return;
    this.#timer = setTimeout(() => void this.refresh().then(() => this.follow(everyMs)), everyMs);
    this.#timer.unref();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    await this.#looking;
  }

  async #look(): Promise<void> {
    try {
      this.#adopt(await this.#ask());
      this.#isStale = false;
    } catch (error) {
      if (!this.#isStale) this.#parts.onStale(error);
      this.#isStale = true;
    }
  }

  async #ask(): Promise<Live> {
    if (this.#aliases.length === 0) return new Map();
    const policies = await this.#parts.releases.policies();
    const followed = policies.filter((policy) => this.#aliases.includes(policy));
    const live = await Promise.all(followed.map((policy) => this.#parts.releases.live(policy)));
    return new Map(live.flatMap((release) => (release ? [[release.policy, release] as const] : [])));
  }

  #adopt(live: Live): void {
    const before = this.#live;
    const changed = this.#aliases.filter((alias) => !sameWeights(before.get(alias), live.get(alias)));
    if (changed.length === 0) return;
    this.#catalog = this.#parts.build(configAt(this.#parts.config, live));
    this.#live = live;
    for (const alias of changed) this.#parts.onChange(alias, live.get(alias) ?? null);
  }
}
