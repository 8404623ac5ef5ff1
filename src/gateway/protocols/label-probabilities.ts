/**
 * How likely each label was, by the log-probabilities of the token in which the labels part. Only the relative ones
 * count: what the model would rather have said than any label is left out, as is usual where options are scored
 * (e.g. pairwise ranking prompting, arXiv 2306.17563).
 */
import { alternativesAt, isAlternative } from './alternatives.ts';

/** The one label that begins with this piece of text, or that this piece begins with. */
function labelIn(piece: string, labels: readonly string[]): string | undefined {
  const text = piece.trim();
  if (text === '') return undefined;
  if (labels.includes(text)) return text;
  const begun = labels.filter((label) => label.startsWith(text));
  return begun.length === 1 ? begun[0] : undefined;
}

/**
 * The label's probabilities, summing to 1, or undefined when none of them was among the alternatives.
 *
 * @param logprobs `choices[].logprobs.content` of the answer
 * @param start where in the text of these tokens the label begins, or would have begun
 */
export function labelProbabilities(
  logprobs: readonly unknown[],
  labels: readonly string[],
  start: number,
): ReadonlyMap<string, number> | undefined {
  let end = 0;
  for (const entry of logprobs) {
    if (!isAlternative(entry)) return undefined;
    const from = end;
    end += entry.token.length;
    if (end <= start || (start === 0 && entry.token.trim() === '')) continue;
    // A token may begin before the label, with a quotation mark for example.
    const head = entry.token.slice(0, Math.max(0, start - from));
    const mass = new Map<string, number>();
    for (const { token, logprob } of alternativesAt(entry)) {
      const label = token.startsWith(head) ? labelIn(token.slice(head.length), labels) : undefined;
      if (label !== undefined) mass.set(label, (mass.get(label) ?? 0) + Math.exp(logprob));
    }
    const sum = [...mass.values()].reduce((total, one) => total + one, 0);
    if (sum === 0) return undefined;
    return new Map(labels.map((label) => [label, (mass.get(label) ?? 0) / sum]));
  }
  return undefined;
}
