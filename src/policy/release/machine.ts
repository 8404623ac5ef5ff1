/**
 * The way of a release from the trainer to the clients, as a state machine. A release is never changed: a move gives
 * the next state, with one more transition in its history that says when and why.
 */
import { ConsortError } from '../../contract/errors.ts';
import type { Release, Stage } from '../../contract/release.ts';

/** When a move is made, and what was seen that justifies it. */
export interface Moment {
  /** Unix milliseconds. */
  readonly at: number;
  readonly reason: string;
}

/** What a release is born with. */
export type Export = Omit<Release, 'v' | 'stage' | 'history'>;

/**
 * Where each stage can lead. A retired version was good once and can go live again, which is what a rollback does; one
 * that was rolled back or rejected never can, its weights would have to come back as another version.
 */
export const MOVES: Readonly<Record<Stage, readonly Stage[]>> = {
  exported: ['verified', 'rejected'],
  verified: ['loaded', 'rejected'],
  loaded: ['probed', 'rejected'],
  probed: ['live', 'retired', 'rejected'],
  live: ['retired', 'rolled-back'],
  retired: ['live'],
  'rolled-back': [],
  rejected: [],
};

/** A release that the trainer has just exported. */
export function exported(fields: Export, { at, reason }: Moment): Release {
  const history = [{ from: null, to: 'exported' as const, at, reason }];
  return { v: 1, ...fields, stage: 'exported', history };
}

/**
 * The release in its next stage.
 *
 * @throws `release_move_illegal` naming the stages it can go to
 */
export function moved(release: Release, to: Stage, { at, reason }: Moment): Release {
  const { policy, version, stage: from, history } = release;
  const possible = MOVES[from];
  if (!possible.includes(to)) {
    const list = possible.join(', ') || 'nothing, that stage is final';
    throw new ConsortError('release_move_illegal', [version, policy, from, to, list]);
  }
  return { ...release, stage: to, history: [...history, { from, to, at, reason }] };
}

/** The name under which a fleet serves a version. Nothing else is ever called that. */
export function servedName(policy: string, version: number): string {
  return `${policy}-v${String(version).padStart(6, '0')}`;
}

/** The last version that was live before: where a rollback goes. Undefined when there was none. */
export function predecessorOf(release: Release, all: readonly Release[]): Release | undefined {
  const retired = all.filter(({ policy, version, stage, history }) => {
    const wasLive = history.some(({ to }) => to === 'live');
    return policy === release.policy && version !== release.version && stage === 'retired' && wasLive;
  });
  return retired.toSorted((a, b) => retiredAt(b) - retiredAt(a) || b.version - a.version)[0];
}

function retiredAt({ history }: Release): number {
  return history.at(-1)?.at ?? 0;
}
