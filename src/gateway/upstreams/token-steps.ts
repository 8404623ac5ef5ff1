/** Reads tokens that were asked for by their ids: `token_id:5` in the place of words. */
import Type, { type Static } from 'typebox';
import { Compile } from 'typebox/compile';
import type { Answer, TokenStep } from '../../contract/call.ts';
import { ConsortError } from '../../contract/errors.ts';

const Named = { token: Type.String({ pattern: '^token_id:\\d+$' }), logprob: Type.Number() };
const Entry = Type.Object({
  ...Named,
  top_logprobs: Type.Optional(Type.Union([Type.Array(Type.Object(Named)), Type.Null()])),
});
const entries = Compile(Type.Array(Entry));

function idOf({ token }: Pick<Static<typeof Entry>, 'token'>): number {
  return Number(token.slice('token_id:'.length));
}

/** @throws `upstream_malformed` where the endpoint names tokens by their words */
export function stepsOf(alias: string, { logprobs = [] }: Answer): TokenStep[] {
  if (!entries.Check(logprobs)) {
    throw new ConsortError('upstream_malformed', [alias, 'log-probabilities without token ids']);
  }
  return logprobs.map((entry) => ({
    id: idOf(entry),
    logprob: entry.logprob,
    others: new Map((entry.top_logprobs ?? []).map((other) => [idOf(other), other.logprob])),
  }));
}
