/** A release as both stores keep it: the text, and beside it what a change compares. */
import { Compile } from 'typebox/compile';
import { Release } from '../contract/release.ts';
import type { ReleaseChange } from '../contract/store.ts';

export interface StoredRelease {
  readonly version: number;
  /** Transitions that the kept state must have. */
  readonly expected: number;
  readonly transitions: number;
  readonly isLive: boolean;
  readonly body: string;
}

const check = Compile(Release);

export function storedRelease({ expected, next }: ReleaseChange): StoredRelease {
  return {
    version: next.version,
    expected,
    transitions: next.history.length,
    isLive: next.stage === 'live',
    body: JSON.stringify(next),
  };
}

/** The policy whose versions are changed together. */
export function policyOf(changes: readonly ReleaseChange[]): string {
  const [first, ...others] = changes.map(({ next }) => next);
  if (!first) throw new TypeError('no changes');
  if (others.some(({ policy }) => policy !== first.policy))
    throw new TypeError('changes of several policies');
  const versions = new Set(changes.map(({ next }) => next.version));
  if (versions.size < changes.length) throw new TypeError(`two changes of one version of ${first.policy}`);
  return first.policy;
}

/** The release, or nothing when the text is of a version this program does not read. */
export function decodeRelease(text: string | null | undefined): Release | undefined {
  const value: unknown = JSON.parse(text ?? 'null');
  return check.Check(value) ? value : undefined;
}

/** Newest first. */
export const byVersion = (a: Release, b: Release): number => b.version - a.version;
