/**
 * Counting answers. What is compared is the extracted answer in its canonical form; an answer from which nothing
 * can be read is no vote. Ties go by the declared rule, which never looks at the order of arrival.
 */
import type { Call } from '../../contract/call.ts';
import type { Random } from '../../contract/capabilities.ts';
import type { Task } from '../../contract/task.ts';
import { optionsFrom, readLabels } from '../../scoring/rewards/choice-grammar.ts';
import { canonical, extractAnswer, readableText } from '../../scoring/rewards/extract.ts';
import { unwrapAnswer } from '../../scoring/rewards/markup.ts';
import type { Contribution } from './ask-all.ts';
import type { Decision } from './label-step.ts';

export type Ties = 'priority' | 'random';

/**
 * What this text votes for, or undefined. Where the task names choices, a vote is the labels that the stated answer
 * (or the last line, as a letter often stands there alone) names, and whatever names none is no vote.
 */
export function voteOf(text: string, task: Task): string | undefined {
  const stated = extractAnswer(text)?.answer;
  if (!task.choices) return stated === undefined ? undefined : canonical(stated) || undefined;
  const options = optionsFrom(task.choices);
  const labels = readLabels(stated ?? lastLineOf(text), options);
  return labels && [...labels].toSorted().join(',');
}

function lastLineOf(text: string): string {
  return unwrapAnswer(readableText(text)?.trimEnd().split('\n').at(-1)?.trim() ?? '');
}

function supportersOf(
  contributions: readonly Contribution[],
  task: Task,
): Map<string | undefined, Contribution[]> {
  const supporters = Map.groupBy(contributions, ({ answer }) => voteOf(answer.message.text, task));
  supporters.delete(undefined);
  return supporters;
}

/** How many of the contributions carry the most common vote; 0 when none can be read. */
export function mostAgreeing(contributions: readonly Contribution[], task: Task): number {
  return Math.max(0, ...[...supportersOf(contributions, task).values()].map(({ length }) => length));
}

/**
 * The contribution that carries the most common vote: of its supporters the first in pool order. When no vote
 * can be read at all, the first contribution stands. `priority` gives a tie to the vote of the earliest
 * supporter; `random` to one of the tied votes, uniformly, the same for the same prompt.
 *
 * @param contributions in pool order; at least one
 */
export function winner(
  contributions: readonly Contribution[],
  task: Task,
  ties: Ties,
  random: Random,
): Contribution {
  const supporters = supportersOf(contributions, task);
  const most = Math.max(...[...supporters.values()].map((group) => group.length));
  const tied = [...supporters].filter(([, group]) => group.length === most);
  if (ties === 'random') tied.sort(([a], [b]) => random(`tie/${a}`) - random(`tie/${b}`));
  const first = tied[0]?.[1][0] ?? contributions[0];
  if (!first) throw new TypeError('winner needs at least one contribution');
  return first;
}

/**
 * Whether `winner` will name the same contribution whatever the calls under way bring: its vote is ahead by more than
 * they are, and none of them comes before the first of its supporters.
 *
 * @param calls all of them, in the order of the contributions
 */
export function isDecided(
  calls: readonly Call[],
  heard: readonly Contribution[],
  underWay: readonly Call[],
  task: Task,
): boolean {
  if (heard.length <= underWay.length) return false;
  const supporters = supportersOf(heard, task);
  const [first, second] = [...supporters.values()].toSorted((a, b) => b.length - a.length);
  if (!first || first.length <= (second?.length ?? 0) + underWay.length) return false;
  const place = calls.findIndex(({ slot }) => slot === first[0]?.slot);
  return calls.slice(0, place).every((call) => !underWay.includes(call));
}

/**
 * The label with the most votes, or undefined when there is none. A fallback is no vote. `priority` gives a tie to
 * the earliest in `labels`; `random` to one of the tied, uniformly, the same for the same prompt.
 */
export function mostVoted(
  decisions: readonly Decision[],
  labels: readonly string[],
  ties: Ties,
  random: Random,
): string | undefined {
  const votes = decisions.filter(({ by }) => by !== 'fallback').map(({ label }) => label);
  const counts = labels.map((label) => votes.filter((vote) => vote === label).length);
  const most = Math.max(1, ...counts);
  const tied = labels.filter((_label, index) => counts[index] === most);
  if (ties === 'random') tied.sort((a, b) => random(`tie/${a}`) - random(`tie/${b}`));
  return tied[0];
}
