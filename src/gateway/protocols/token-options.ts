/** Options and cost that the protocols below words have in common. */
import Type from 'typebox';
import type { Shape } from './protocol.ts';

export const Top = Type.Integer({
  minimum: 1,
  maximum: 1000,
  default: 20,
  description:
    'How many of its likeliest tokens each member is asked for; an endpoint’s own limit may be lower.',
});

export const MaxTokens = Type.Integer({
  minimum: 1,
  maximum: 4096,
  default: 128,
  description: 'Most tokens of an answer, as each is a round trip; a request can only ask for less.',
});

/** The most that a mix can take: for each token, all members twice, and one of them for its words. */
export function mixShape(members: number, tokens: number): Shape {
  if (members === 1) return { calls: 1, path: 1, widest: 1 };
  return { calls: members + tokens * (2 * members + 1), path: 3 * tokens, widest: 2 * members };
}
