/**
 * How sure a member was of the answer that it stated: the mean, over the tokens of the stated answer, of the likeliest
 * token's probability among the five likeliest. Only the answer's own tokens count, as the phrases around it are sure
 * whatever the answer. Where the endpoint tells no alternatives, or no answer is stated, there is no number.
 */
import type { Answer, Call } from '../../contract/call.ts';
import type { Member } from '../../contract/plan.ts';
import type { Task } from '../../contract/task.ts';
import { extractAnswer } from '../../scoring/rewards/extract.ts';
import { alternativesAt, isAlternative } from './alternatives.ts';
import { plainCall } from './single.ts';

/** As many as every endpoint that tells any can tell. */
const ALTERNATIVES = 5;
/** The end of a sentence is no part of what it states. */
const SENTENCE_END = /[.,;:!]+$/;
const LETTER_OR_DIGIT = /[\p{L}\p{N}]/u;

/**
 * The plain call with its tokens' log-probabilities. It is the same whatever comes of the answer, so that coalitions
 * share it.
 *
 * @param speaks whether the client hears it as it speaks
 */
export function confidentCall(task: Task, member: Member, speaks: boolean): Call {
  return { ...plainCall(task, member), confidence: true, speaks };
}

/** In [1/5, 1], or undefined when it cannot be told. */
export function statedConfidence({ message, logprobs = [] }: Answer): number | undefined {
  const stated = extractAnswer(message.text)?.answer.replace(SENTENCE_END, '');
  const tokens = logprobs.filter(isAlternative);
  const start = stated ? lastWhole(tokens.map(({ token }) => token).join(''), stated) : -1;
  if (!stated || start < 0) return undefined;
  let end = 0;
  let sum = 0;
  let count = 0;
  for (const place of tokens) {
    const from = end;
    end += place.token.length;
    if (end <= start || from >= start + stated.length) continue;
    const share = shareOfFirst(alternativesAt(place).map(({ logprob }) => logprob));
    if (share === undefined) return undefined;
    sum += share;
    count++;
  }
  return sum / count;
}

/** The first's probability among the likeliest; a single alternative would always be sure, and says nothing. */
function shareOfFirst(logprobs: readonly number[]): number | undefined {
  const likeliest = logprobs.toSorted((a, b) => b - a).slice(0, ALTERNATIVES);
  const [first] = likeliest;
  if (first === undefined || likeliest.length < 2) return undefined;
  return 1 / likeliest.reduce((sum, logprob) => sum + Math.exp(logprob - first), 0);
}

/** Where these words last stand in a text as words of their own; -1 when they do not. */
function lastWhole(text: string, words: string): number {
  const isWordy = (at: number) => LETTER_OR_DIGIT.test(text[at] ?? '');
  let at = text.lastIndexOf(words);
  while (at > 0 && (isWordy(at - 1) || isWordy(at + words.length))) at = text.lastIndexOf(words, at - 1);
  return at === 0 && isWordy(words.length) ? -1 : at;
}
