/** Members as a list from which one of them is named: numbered, without their names, as the operator describes them. */
import type { Random } from '../../contract/capabilities.ts';
import type { Member } from '../../contract/plan.ts';
import type { Decision } from './label-step.ts';

const UNDESCRIBED = 'An assistant about which nothing is known.';

/** One line a member, without its name. */
export function described({ description, price }: Member, showPrices = false): string {
  const text = description?.replaceAll(/\s+/g, ' ').trim() || UNDESCRIBED;
  if (!showPrices) return text;
  const [input, output] = [price.inputMicros / 1e6, price.outputMicros / 1e6];
  return `${text} Price: ${input} USD per million tokens read, ${output} written.`;
}

/** The label of the member at this place of the list. */
export const labelAt = (index: number) => String(index + 1);

/** Members in the order in which they are listed: that of two is the same in every coalition of the prompt. */
export function listOf(team: readonly Member[], random: Random): Member[] {
  const keys = new Map(team.map((member) => [member, random(`list/${member.alias}`)]));
  return team.toSorted((a, b) => (keys.get(a) ?? 0) - (keys.get(b) ?? 0));
}

/** Who is to answer, and who next: the one named, then by probability, then as `team` is ordered. */
export function ranked(team: readonly Member[], listed: readonly Member[], decision: Decision): Member[] {
  const { by, label, member: router, probabilities } = decision;
  const rank = (member: Member) => {
    const own = labelAt(listed.indexOf(member));
    const isNamed = by === 'fallback' ? member === router : own === label;
    return isNamed ? Infinity : (probabilities?.get(own) ?? 0);
  };
  return team.toSorted((a, b) => (rank(b) === rank(a) ? 0 : rank(b) - rank(a)));
}
