/**
 * The book of a policy's releases: the moves of the state machine, written to the store against the state that was
 * read. Of two controllers that decide at once, one wins and the other hears `release_conflict`.
 */
import { ConsortError } from '../../contract/errors.ts';
import type { Release, Stage } from '../../contract/release.ts';
import type { ReleaseChange, Releases } from '../../contract/store.ts';
import { exported, moved, predecessorOf, type Export } from './machine.ts';

export class ReleaseBook {
  readonly #releases: Releases;
  readonly #now: () => number;

  constructor(releases: Releases, now: () => number) {
    this.#releases = releases;
    this.#now = now;
  }

  /** @throws `release_conflict` when the version exists */
  async open(fields: Export, reason: string): Promise<Release> {
    const next = exported(fields, { at: this.#now(), reason });
    await this.#write([{ expected: 0, next }]);
    return next;
  }

  /** @throws `release_not_found` */
  async get(policy: string, version: number): Promise<Release> {
    const release = await this.#releases.get(policy, version);
    if (!release) throw new ConsortError('release_not_found', [version, policy]);
    return release;
  }

  /** Any move but one to or from `live`: those are `promote` and `rollBack`. */
  async move(release: Release, to: Exclude<Stage, 'live' | 'rolled-back'>, reason: string): Promise<Release> {
    const change = this.#change(release, to, reason);
    await this.#write([change]);
    return change.next;
  }

  /**
   * Makes a version live; the one that was live retires in the same step.
   *
   * @throws `release_move_illegal` unless it is probed or retired, `release_conflict`
   */
  async promote(release: Release, reason: string): Promise<Release> {
    const live = await this.#releases.live(release.policy);
    const change = this.#change(release, 'live', reason);
    const successor = `version ${release.version} is live: ${reason}`;
    await this.#write(live ? [this.#change(live, 'retired', successor), change] : [change]);
    return change.next;
  }

  /**
   * Takes the live version out, for good; the one before it is live again in the same step. Without one before,
   * clients get the model of the configuration.
   *
   * @returns the version that is live now, undefined for the model of the configuration
   * @throws `release_conflict`, also when nothing is live any more
   */
  async rollBack(policy: string, reason: string): Promise<Release | undefined> {
    const live = await this.#releases.live(policy);
    if (!live) throw new ConsortError('release_conflict', [policy]);
    const previous = predecessorOf(live, await this.#releases.list(policy));
    const changes = [this.#change(live, 'rolled-back', reason)];
    if (previous) {
      changes.push(this.#change(previous, 'live', `version ${live.version} was rolled back: ${reason}`));
    }
    await this.#write(changes);
    return changes[1]?.next;
  }

  #change(release: Release, to: Stage, reason: string): ReleaseChange {
    return { expected: release.history.length, next: moved(release, to, { at: this.#now(), reason }) };
  }

  async #write(changes: readonly ReleaseChange[]): Promise<void> {
    if (await this.#releases.compareAndSet(changes)) return;
    throw new ConsortError('release_conflict', [changes[0]?.next.policy]);
  }
}
