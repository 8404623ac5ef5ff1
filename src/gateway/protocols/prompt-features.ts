/**
 * A prompt as a vector of numbers: its words and pairs of neighbouring words, hashed with signs (Weinberger et al. 2009,
 * arXiv 0902.2206), of length 1. It needs no endpoint and no vocabulary, and tells kinds of tasks apart by their words.
 */
import { textOf } from '../../contract/chat.ts';
import type { Task } from '../../contract/task.ts';

/** Numbers by their length: which one it is says little of what is asked. */
const TOKEN = /\p{N}+|\p{L}+|[^\s\p{L}\p{N}]/gu;

/** FNV-1a, 32 bits. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(text)) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
  // Its low bits alone are poor: those that choose the place are mixed from all.
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b) >>> 0;
  return (hash ^ (hash >>> 13)) >>> 0;
}

/** The last turn of the user counts: that is what is asked. */
export function promptFeatures({ messages }: Pick<Task, 'messages'>, dimensions: number): number[] {
  const asked = messages.findLast(({ role }) => role === 'user') ?? messages.at(-1);
  const text = asked ? textOf(asked).toLowerCase() : '';
  const tokens = (text.match(TOKEN) ?? []).map((token) => token.replaceAll(/\p{N}/gu, '0'));
  const pairs = tokens.slice(1).map((token, index) => `${tokens[index]} ${token}`);
  const vector = new Array<number>(dimensions).fill(0);
  for (const feature of [...tokens, ...pairs]) {
    const hash = hashOf(feature);
    const place = hash % dimensions;
    vector[place] = (vector[place] ?? 0) + (hash >>> 31 === 0 ? 1 : -1);
  }
  const length = Math.hypot(...vector);
  return length === 0 ? vector : vector.map((value) => value / length);
}
