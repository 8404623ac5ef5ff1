/** From an outcome and its gold answer to a reward. */
import Type from 'typebox';
import type { Outcome } from '../contract/outcome.ts';
import type { Reward } from '../contract/reward.ts';
import type { Verifier } from './rewards/reward.ts';

/** Sources are versioned: numbers of different verifiers, or versions of one, are never mixed. */
export function sourceOf(verifier: Verifier): string {
  return `verifier:${verifier.id}@${verifier.version}`;
}

/** A task's choices, for a verifier that takes them: the others have no such parameter. */
function choicesFor({ params }: Verifier, { choices }: Outcome): object {
  return choices && Type.IsObject(params) && 'choices' in params.properties ? { choices } : {};
}

/**
 * The reward of an outcome that brought a gold answer, or undefined when there is nothing to grade it by.
 * A run that failed or ran out of time is worth 0 (intention to treat: it is what the coalition achieved); one
 * that the client left has no reward.
 *
 * @param at Unix milliseconds
 */
export async function judge(
  outcome: Outcome,
  verifiers: readonly Verifier[],
  at: number,
): Promise<Reward | undefined> {
  const verifier = verifiers.find(({ id }) => id === outcome.verifier);
  if (!verifier || outcome.gold === undefined) return undefined;
  const source = sourceOf(verifier);
  const reward = { v: 1 as const, id: `${outcome.id}/${source}`, outcomeId: outcome.id, source, at };
  if (outcome.status === 'cancelled') return { ...reward, value: null, status: 'cancelled' };
  if (outcome.answer === null) return { ...reward, value: 0, status: outcome.status };
  const grade = await verifier.grade({
    completion: outcome.answer,
    gold: outcome.gold,
    params: { ...outcome.params, ...choicesFor(verifier, outcome) },
  });
  return { ...reward, value: grade.reward, status: grade.status };
}
