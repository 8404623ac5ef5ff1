/** The tokens that could have stood in a place of an answer, as far as its endpoint tells them. */
export interface Alternative {
  readonly token: string;
  readonly logprob: number;
}

export function isAlternative(entry: unknown): entry is Alternative {
  if (typeof entry !== 'object' || entry === null || !('token' in entry) || !('logprob' in entry))
    return false;
  return typeof entry.token === 'string' && typeof entry.logprob === 'number';
}

/** The tokens that could have stood here, the one that does included. */
export function alternativesAt(entry: unknown): Alternative[] {
  if (!isAlternative(entry)) return [];
  const top: unknown = 'top_logprobs' in entry ? entry.top_logprobs : undefined;
  const others = Array.isArray(top) ? top.filter(isAlternative) : [];
  return others.some(({ token }) => token === entry.token) ? others : [entry, ...others];
}
