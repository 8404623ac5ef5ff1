/** Legacy completions, whole: one JSON body. */
import type { RunResult } from '../../contract/capabilities.ts';
import { traceFields } from './trace-body.ts';
import { totalUsage, usageBody } from './usage-body.ts';
import type { About } from './wire.ts';

export interface CompletionOptions extends About {
  /** The prompt, where the client wants it before each answer. */
  readonly echo: string;
  readonly includeUsage: boolean;
}

interface Entry {
  readonly token: string;
  readonly logprob: unknown;
  readonly top_logprobs?: unknown;
}

function isEntry(value: unknown): value is Entry {
  return typeof value === 'object' && value !== null && 'token' in value && typeof value.token === 'string';
}

/** The alternatives of one token by what they say, and the token itself. */
function alternativesOf({ token, logprob, top_logprobs: tops }: Entry, top: number): object {
  const others = Array.isArray(tops) ? tops.filter(isEntry).slice(0, top) : [];
  const named = others.map((other) => [other.token, other.logprob] as const);
  return Object.fromEntries([...named, [token, logprob] as const]);
}

/**
 * Log-probabilities in the legacy form: lists side by side, each token with its place in the text.
 *
 * @param top the alternatives that the client wants; undefined when it asked for no log-probabilities
 * @param from where the first token begins
 */
export function legacyLogprobs(content: readonly unknown[] | undefined, top: number | undefined, from = 0) {
  if (content === undefined || top === undefined) return null;
  const entries = content.filter(isEntry);
  let offset = from;
  const offsets = entries.map(({ token }) => {
    const at = offset;
    offset += token.length;
    return at;
  });
  return {
    tokens: entries.map(({ token }) => token),
    token_logprobs: entries.map(({ logprob }) => logprob),
    top_logprobs: top === 0 ? null : entries.map((entry) => alternativesOf(entry, top)),
    text_offset: offsets,
  };
}

export function completionBody(results: readonly RunResult[], options: CompletionOptions): string {
  const { id, created, model, fingerprint, trace, topLogprobs, echo } = options;
  const outcomes = results.map(({ outcome }) => outcome);
  const choices = results.flatMap(({ answer }, index) => {
    if (!answer) return [];
    const { message, finishReason, logprobs } = answer;
    return {
      text: echo + message.text,
      index,
      logprobs: legacyLogprobs(logprobs, topLogprobs),
      finish_reason: finishReason,
    };
  });
  return JSON.stringify({
    id,
    object: 'text_completion',
    created,
    model,
    choices,
    usage: usageBody(totalUsage(outcomes)),
    system_fingerprint: fingerprint,
    ...(trace && { consort: traceFields(outcomes) }),
  });
}
