/**
 * Finds the stated answer in a completion. Most false negatives of naive graders live here, so the order is fixed:
 * no reasoning block; then the last box, the last `<answer>`, the last `####`, the last announcement ("final answer:
 * …"), and a response of one line as a whole. Within a kind the last statement wins; kinds never mix.
 */
import { lastBox } from './boxed.ts';
import { unwrapAnswer, withoutEmphasis } from './markup.ts';
import type { AnswerSource } from './reward.ts';
import { lastAnnounced, lastHash } from './statement.ts';
import { withoutThinking } from './thinking.ts';
import { cleanUnicode } from './unicode.ts';

export { canonical } from './canonical.ts';

/** Characters of a completion that are read: its end, for the last statement wins. */
export const LONGEST_TEXT = 65_536;
/** Characters of an answer beyond which it is not one. */
export const LONGEST_ANSWER = 4_096;

export interface ExtractedAnswer {
  readonly answer: string;
  readonly source: AnswerSource;
}

/** Why there is no answer: nothing was stated, the statement is broken off, or it is too long to be one. */
export type NoAnswer = 'unstated' | 'unfinished' | 'too-long';

/** The stated answer of a completion and where it stood, or undefined when none is stated. */
export function extractAnswer(text: string): ExtractedAnswer | undefined {
  const found = findAnswer(text);
  return typeof found === 'string' ? undefined : found;
}

/** As `extractAnswer`, with the reason when there is none. */
export function findAnswer(text: string): ExtractedAnswer | NoAnswer {
  const body = readableText(text);
  if (body === undefined) return 'unfinished';
  const box = lastBox(body);
  if (box !== undefined) return box === 'unbalanced' ? 'unfinished' : stated(box.content, 'boxed');
  const tag = lastTag(body);
  if (tag !== undefined) return stated(tag, 'tag');
  const hash = lastHash(body);
  if (hash !== undefined) return stated(hash, 'hash');
  const announced = lastAnnounced(withoutEmphasis(body));
  if (announced !== undefined) return stated(announced, 'phrase');
  const trimmed = body.trim();
  return trimmed === '' || trimmed.includes('\n') ? 'unstated' : stated(trimmed, 'whole');
}

/** A completion without its reasoning blocks, in plain characters, cut to its end; undefined inside a block. */
export function readableText(text: string): string | undefined {
  const outside = withoutThinking(text);
  return outside === undefined ? undefined : cleanUnicode(outside.slice(-LONGEST_TEXT));
}

function stated(raw: string, source: AnswerSource): ExtractedAnswer | NoAnswer {
  if (raw.length > LONGEST_ANSWER) return 'too-long';
  const answer = unwrapAnswer(raw);
  return answer === '' ? 'unfinished' : { answer, source };
}

/** The last `<answer>…</answer>`; without a closing tag (a stop string) only when one line follows. */
function lastTag(text: string): string | undefined {
  let start = -1;
  for (const match of text.matchAll(/<answer>/gi)) start = match.index + match[0].length;
  if (start < 0) return undefined;
  const rest = text.slice(start);
  const end = rest.search(/<\/answer>/i);
  if (end >= 0) return rest.slice(0, end);
  return rest.trim().includes('\n') ? '' : rest;
}
