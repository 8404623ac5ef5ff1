/**
 * How much text a prompt has room for, and how texts are made to fit. Tokens are counted as UTF-8 bytes by a rate that
 * errs on the side of too many, since a gateway knows no tokenizer: a prompt that is too long would be refused whole.
 */
import { textOf, type ChatMessage, type Sampling } from '../../contract/chat.ts';
import type { Member } from '../../contract/plan.ts';

/** English has about 4 bytes a token, Chinese about 3, code less than English. */
const BYTES_PER_TOKEN = 3;
/** What a chat template puts around each message. */
const TEMPLATE_TOKENS = 8;
/** Left for the answer when the request names no limit: at most this, and at most a quarter of the window. */
const ANSWER_TOKENS = 2_048;

export function bytesOf(text: string): number {
  return new TextEncoder().encode(text).length;
}

/**
 * The bytes that may be added to a prompt for this member; Infinity when its context window is not known. At least 0:
 * a prompt that is too long already is for the endpoint to refuse.
 */
export function roomFor(
  { capabilities }: Member,
  messages: readonly ChatMessage[],
  sampling: Sampling,
): number {
  const { context } = capabilities;
  if (context === undefined) return Infinity;
  const asked = sampling.max_completion_tokens ?? sampling.max_tokens;
  const answer = asked ?? Math.min(ANSWER_TOKENS, Math.floor(context / 4));
  const used = messages.reduce((sum, message) => sum + bytesOf(textOf(message)), 0);
  const tokens = context - answer - TEMPLATE_TOKENS * (messages.length + 1);
  return Math.max(0, tokens * BYTES_PER_TOKEN - used);
}

/** The largest length such that texts cut to it fit: the short ones stay whole, the long ones share what is left. */
function fairLength(lengths: readonly number[], room: number): number {
  let left = room;
  const ascending = lengths.toSorted((a, b) => a - b);
  for (const [index, length] of ascending.entries()) {
    const share = left / (ascending.length - index);
    if (length > share) return Math.max(0, Math.floor(share));
    left -= length;
  }
  return Infinity;
}

/**
 * Cuts the longest texts until all of them fit. What is left out is said in its place; of a cut text the end gets two
 * thirds, as answers stand there.
 *
 * @param room in bytes, for all texts together
 */
export function fit(texts: readonly string[], room: number): string[] {
  if (room === Infinity) return [...texts];
  const longest = fairLength(texts.map(bytesOf), room);
  return texts.map((text) => (bytesOf(text) <= longest ? text : cut(text, longest)));
}

function cut(text: string, bytes: number): string {
  const points = [...text];
  const head = within(points, bytes / 3);
  const tail = within(points.toReversed(), bytes - bytes / 3).toReversed();
  const missing = points.length - head.length - tail.length;
  return `${head.join('')}\n[… ${missing} characters left out …]\n${tail.join('')}`;
}

/** As many characters from the start as have this many bytes. */
function within(points: readonly string[], bytes: number): string[] {
  let left = bytes;
  const end = points.findIndex((point) => (left -= bytesOf(point)) < 0);
  return points.slice(0, end === -1 ? points.length : end);
}
