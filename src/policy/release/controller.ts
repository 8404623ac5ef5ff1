/**
 * Takes what a trainer exported to the clients: one policy's releases, one step after the other, and the fleet kept as
 * the book says. Every part can be repeated, so a controller that dies, or a replica that restarts, costs a repetition.
 */
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import Type from 'typebox';
import Value from 'typebox/value';
import { ConsortError } from '../../contract/errors.ts';
import type { Release } from '../../contract/release.ts';
import type { Releases } from '../../contract/store.ts';
import type { ServingFleet } from '../serving/fleet.ts';
import type { TrainerPort } from '../trainers/trainer.ts';
import { advanceRelease, decideRelease, wantedOf } from './advance.ts';
import { ReleaseBook } from './book.ts';
import { alphaOfGate, GATE_RULES, type GateEvidence, type GateVerdict } from './gate.ts';
import { servedName } from './machine.ts';
import { digestOf } from './verify.ts';
import type { ProbePrompt } from './prober.ts';

export interface ControllerParts {
  readonly policy: string;
  readonly releases: Releases;
  readonly fleet: ServingFleet;
  /** Folder of the adapters, the same path on every replica. */
  readonly directory: string;
  readonly maxRank: number;
  /** Runs the team with the live version and with the candidate on the same prompts. */
  readonly compare: (live: Release | undefined, candidate: Release) => Promise<GateEvidence>;
  /** What must be shown, and the chance of showing it by accident over all gates ever. */
  readonly gate: { readonly margin: number; readonly alpha: number };
  /** Unix milliseconds. */
  readonly now: () => number;
  /** How long after it was live a request may still name a version, in milliseconds. */
  readonly graceMs: number;
}

/** What an export comes from. */
export interface Trained {
  readonly trainer: Pick<TrainerPort, 'exportPolicy' | 'score'>;
  readonly run: string;
  readonly step: number;
  /** Prompts, as the policy was asked, to compare trainer and fleet by: token ids. */
  readonly probes: readonly (readonly number[])[];
}

const PROBES = 'probes.json';
const Probes = Type.Array(
  Type.Object({
    tokens: Type.Array(Type.Integer()),
    trainer: Type.Array(Type.Union([Type.Number(), Type.Null()])),
  }),
);

/** Stages from which a release can still become live. */
const OPEN = ['exported', 'verified', 'loaded', 'probed'];

export class ReleaseController {
  readonly #parts: ControllerParts;
  readonly #book: ReleaseBook;

  constructor(parts: ControllerParts) {
    this.#parts = parts;
    this.#book = new ReleaseBook(parts.releases, parts.now);
  }

  /** Where the adapter of a release lies, here and on every replica. */
  readonly directoryOf = (release: Pick<Release, 'servedAs'>): string =>
    join(this.#parts.directory, release.servedAs);

  /** The trainer's current weights as the next version, with what the probe will need. @throws `trainer_*` */
  async export({ trainer, run, step, probes }: Trained): Promise<Release> {
    const { policy, releases, fleet } = this.#parts;
    const version = 1 + Math.max(0, ...(await releases.list(policy)).map((release) => release.version));
    const servedAs = servedName(policy, version);
    const directory = this.directoryOf({ servedAs });
    // What is there without a release was left by a controller that died, and may be of another step.
    await rm(directory, { recursive: true, force: true });
    const workshop = `${directory}.exporting`;
    await rm(workshop, { recursive: true, force: true });
    await mkdir(this.#parts.directory, { recursive: true });
    await trainer.exportPolicy(`${servedAs.replaceAll('.', '_')}-s${step}`, workshop);
    const scores = await trainer.score(probes);
    const prompts = probes.map((tokens, index) => ({ tokens, trainer: [null, ...(scores[index] ?? [])] }));
    await writeFile(join(workshop, PROBES), JSON.stringify(prompts));
    await rename(workshop, directory);
    const sha256 = await digestOf(directory);
    const artifact = { uri: `file:${directory}`, sha256 };
    const fields = { policy, version, servedAs, base: fleet.base, artifact, trainedOn: { run, step } };
    return this.#book.open(fields, `exported after step ${step} of ${run}`);
  }

  /**
   * Takes every open release as far as it goes: the newest to the gate, older ones out of its way.
   *
   * @returns the newest one and the gate's verdict, when there was one
   * @throws what can be mended (`serving_*`, `store_unavailable`, `release_conflict`): call again later
   */
  async advance(): Promise<{ readonly release: Release; readonly verdict?: GateVerdict } | undefined> {
    const { policy, releases } = this.#parts;
    const [newest, ...older] = (await releases.list(policy)).filter(({ stage }) => OPEN.includes(stage));
    for (const release of older) await this.#supersede(release, newest?.version ?? 0);
    if (!newest) return undefined;
    const { fleet, maxRank } = this.#parts;
    const parts = { book: this.#book, fleet, directoryOf: this.directoryOf, maxRank };
    const release = await advanceRelease(newest, { ...parts, promptsOf: (one) => this.#probesOf(one) });
    return release.stage === 'probed' ? this.#decide(release) : { release };
  }

  /** Loads what replicas have forgotten, and unloads what no request can name any more. */
  async restore(): Promise<void> {
    const { fleet, releases, policy } = this.#parts;
    const all = await releases.list(policy);
    const wanted = wantedOf(all);
    for (const release of wanted) {
      await fleet.load({ name: release.servedAs, path: this.directoryOf(release) });
    }
    const loaded = new Set(
      (await fleet.loaded()).flatMap(({ adapters }) => adapters.map(({ name }) => name)),
    );
    for (const release of all) {
      if (wanted.includes(release) || !loaded.has(release.servedAs) || !this.#isPast(release)) continue;
      await fleet.unload(release.servedAs);
    }
  }

  async #decide(release: Release) {
    const { releases, compare, gate } = this.#parts;
    const live = await releases.live(release.policy);
    const evidence = await compare(live, release);
    const rules = { ...GATE_RULES, margin: gate.margin, alpha: alphaOfGate(gate.alpha, release.version) };
    const { verdict, release: next } = await decideRelease(release, evidence, this.#book, rules);
    if (verdict.decision !== 'wait') return { verdict, release: next };
    // All held-out tasks are spent: looking at them again would say the same. An operator can still make it live.
    const findings = verdict.findings.map(({ about, reason }) => `${about}: ${reason}`).join('; ');
    return {
      verdict,
      release: await this.#book.move(next, 'retired', `not shown to be better: ${findings}`),
    };
  }

  async #supersede(release: Release, by: number): Promise<void> {
    const reason = `version ${by} came before it was decided on`;
    await this.#book.move(release, release.stage === 'probed' ? 'retired' : 'rejected', reason);
  }

  async #probesOf(release: Release): Promise<ProbePrompt[]> {
    const file = join(this.directoryOf(release), PROBES);
    try {
      const value: unknown = JSON.parse(await readFile(file, 'utf8'));
      if (Value.Check(Probes, value)) return value;
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new ConsortError('artifact_invalid', [file, reason], { cause: error });
    }
    throw new ConsortError('artifact_invalid', [file, 'it holds no probes']);
  }

  #isPast({ history }: Release): boolean {
    return this.#parts.now() - (history.at(-1)?.at ?? 0) > this.#parts.graceMs;
  }
}
