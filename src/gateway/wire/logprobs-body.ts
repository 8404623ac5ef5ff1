/** Log-probabilities as the client asked for them: none unasked, and no more alternatives than it wanted. */

/** @param top the alternatives that the client wants; undefined when it asked for no log-probabilities */
export function logprobsBody(
  content: readonly unknown[] | undefined,
  top: number | undefined,
): { readonly content: readonly unknown[] } | null {
  if (content === undefined || top === undefined) return null;
  return { content: content.map((entry) => withAlternatives(entry, top)) };
}

function withAlternatives(entry: unknown, top: number): unknown {
  if (typeof entry !== 'object' || entry === null) return entry;
  if (!('top_logprobs' in entry) || !Array.isArray(entry.top_logprobs)) return entry;
  return { ...entry, top_logprobs: entry.top_logprobs.slice(0, top) };
}
