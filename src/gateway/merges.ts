/** Which model stands for a coalition where its members' weights are merged. */
import { ConsortError } from '../contract/errors.ts';
import type { Member } from '../contract/plan.ts';
import type { System } from './catalog.ts';
import { bitsOf } from './engine/outcome.ts';

/**
 * The model that a coalition runs as; undefined where its members are called themselves, as a single one always is.
 *
 * @throws `coalition_unmerged`: no other coalition and no other method takes its place
 */
export function mergedFor({ pool }: Pick<System, 'pool'>, mask: number): Member | undefined {
  const team = bitsOf(mask).flatMap((bit) => pool.members[bit]?.alias ?? []);
  if (!pool.merges || team.length === 1) return undefined;
  const { method, byMask } = pool.merges;
  const merged = byMask.get(mask);
  if (merged) return merged;
  const details = [method, team.join(', '), pool.id, team.join(','), method];
  throw new ConsortError('coalition_unmerged', details, { param: 'consort.coalition' });
}
