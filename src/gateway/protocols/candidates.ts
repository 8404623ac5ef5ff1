/** Candidates that a judge is to tell apart: those that state the same are one, judged and shown once. */
import type { Task } from '../../contract/task.ts';
import type { Contribution } from './ask-all.ts';
import { voteOf } from './ballot.ts';
import { hasSpoken, spokenBy } from './peers.ts';

export interface Candidate {
  /** The first that says it, in the order of the contributions. */
  readonly first: Contribution;
  /** How many say it. */
  readonly count: number;
}

/** In the order of the contributions. Texts from which no answer can be read are the same when their words are. */
export function candidatesOf(contributions: readonly Contribution[], task: Task): Candidate[] {
  const spoken = contributions.filter(hasSpoken);
  const groups = Map.groupBy(spoken.length > 0 ? spoken : contributions, (contribution) => {
    const vote = voteOf(contribution.answer.message.text, task);
    return vote === undefined ? `text ${spokenBy(contribution)}` : `vote ${vote}`;
  });
  return [...groups.values()].flatMap(([first, ...others]) =>
    first ? [{ first, count: 1 + others.length }] : [],
  );
}

/** The candidate that most say; of several the earliest. */
export function mostSaid(candidates: readonly Candidate[]): Candidate | undefined {
  return candidates.toSorted((a, b) => b.count - a.count)[0];
}
