/** Who is asked to take a role, and who next when that member fails. */
import type { Member } from '../../contract/plan.ts';

/** The coalition in the order in which its members are asked: the preferred ones as listed, then the pool's order. */
export function roleOrder<M extends Pick<Member, 'alias'>>(
  team: readonly M[],
  preferred: readonly string[],
): M[] {
  const rank = ({ alias }: M) => {
    const index = preferred.indexOf(alias);
    return index === -1 ? preferred.length : index;
  };
  return team.toSorted((a, b) => rank(a) - rank(b));
}
