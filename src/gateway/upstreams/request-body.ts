/** A call as an OpenAI-compatible request: its route and its body. */
import type { Call, TokenQuestion } from '../../contract/call.ts';
import { labelFields } from './label-step.ts';

type Fields = Readonly<Record<string, unknown>>;

/**
 * Asks vLLM for token ids and log-probs. It would take sampling defaults from the model's generation_config.json,
 * and a trainer knows no distribution but the model's own, so its further knobs are set to do nothing.
 */
const NEUTRAL = { top_k: -1, min_p: 0, repetition_penalty: 1 };

function wantedFields({ tokenIds, logprobs }: NonNullable<Call['wants']>): Fields {
  return { ...NEUTRAL, ...(tokenIds && { return_token_ids: true }), ...(logprobs && { logprobs: true }) };
}

/** Alternatives a token that tell how sure a member was. */
const CONFIDENCE_LOGPROBS = 5;

/** What the protocol wants is asked only of who is known to tell it; what the client wants, of all but who cannot. */
function logprobFields({ confidence, topLogprobs, member }: Call): Fields {
  const most = member.capabilities.logprobs;
  const isAsked = topLogprobs !== undefined || (confidence && most !== undefined);
  if (!isAsked || most === 0) return {};
  const top = Math.min(most ?? Infinity, Math.max(topLogprobs ?? 0, confidence ? CONFIDENCE_LOGPROBS : 0));
  return { logprobs: true, ...(top > 0 && { top_logprobs: top }) };
}

/** Tokens come back by their ids, as two of them may look alike (vLLM's `return_tokens_as_token_ids`). */
function tokenFields({ ids, only }: TokenQuestion): Fields {
  return {
    ...NEUTRAL,
    return_token_ids: true,
    return_tokens_as_token_ids: true,
    ...(ids && { logprob_token_ids: ids }),
    ...(only !== undefined && { allowed_token_ids: [only] }),
  };
}

/** Whether the prompt is not the messages: only `/completions` takes it. */
export function isCompletion({ tokens }: Call): boolean {
  return tokens?.prompt !== undefined;
}

function completionFields(call: Call, tokens: TokenQuestion): Fields {
  return {
    ...call.sampling,
    ...tokenFields(tokens),
    model: call.member.model,
    prompt: tokens.prompt,
    // A text is taken as it stands; of ids there is nothing to add to.
    ...(typeof tokens.prompt === 'string' && { add_special_tokens: false }),
    logprobs: tokens.top,
  };
}

/** The usage is always wanted; whether the client hears of it is the wire's affair. */
function streamFields({ extra }: Call, stream: boolean): Fields {
  const asked = extra?.['stream_options'];
  const options = { ...(typeof asked === 'object' ? asked : undefined), include_usage: true };
  return { stream, stream_options: stream ? options : undefined };
}

/** The client's own body: nothing is added to what the endpoint might not know. */
function passedFields(call: Call, stream: boolean): Fields {
  return { ...call.extra, model: call.member.model, ...(stream && streamFields(call, stream)) };
}

function chatFields(call: Call, stream: boolean): Fields {
  const { tokens } = call;
  return {
    ...call.extra,
    ...call.sampling,
    ...(call.wants && wantedFields(call.wants)),
    ...logprobFields(call),
    ...(tokens && { ...tokenFields(tokens), logprobs: true, top_logprobs: tokens.top }),
    model: call.member.model,
    messages: call.messages,
    ...(call.continues && { continue_final_message: true, add_generation_prompt: false }),
    ...(call.tools && { tools: call.tools, ...call.toolRules }),
    ...(call.responseFormat !== undefined && { response_format: call.responseFormat }),
    ...(call.choose && labelFields(call.choose, call)),
    ...streamFields(call, stream),
  };
}

/** The route below the base URL, and the body. */
export function requestOf(call: Call, stream: boolean): { readonly route: string; readonly body: string } {
  const { tokens, route } = call;
  if (route) return { route: `/${route}`, body: JSON.stringify(passedFields(call, stream)) };
  if (tokens && isCompletion(call))
    return { route: '/completions', body: JSON.stringify(completionFields(call, tokens)) };
  return { route: '/chat/completions', body: JSON.stringify(chatFields(call, stream)) };
}
