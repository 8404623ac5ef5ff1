/**
 * `/v1/completions` as far as vLLM's clients use it to look into a model: a prompt as text or token ids, what the model
 * says after it, and the log-probabilities of either. Whole answers only.
 */
import { randomInt, randomUUID } from 'node:crypto';
import type { Token } from 'node-llama-cpp';
import { flag, isFields, isTokens, number, stops, tokenIds, type Fields } from './chat-request.ts';
import { generate, type Step } from './generate.ts';
import { badField, RequestError } from './request-error.ts';
import { logprobOf, seededChance, type Distribution } from './sample.ts';
import { SpokenText } from './spoken-text.ts';
import { contextSize, type TinyModel } from './tiny-model.ts';

/** Tokens of the prompt that a character can begin in and end after. */
const unfinished = 8;

interface CompletionRequest {
  model: string;
  prompt: string | Token[];
  maxTokens: number;
  temperature: number;
  topP: number;
  seed: number | undefined;
  stop: string[];
  /** How many of the likeliest tokens each place of the answer shows besides its own; undefined shows none. */
  logprobs: number | undefined;
  /** Which tokens are shown in the place of the likeliest. */
  logprobTokenIds: Token[] | undefined;
  tokensAsIds: boolean;
  returnTokenIds: boolean;
  allowed: Token[] | undefined;
  /** As `logprobs`, for the places of the prompt. */
  promptLogprobs: number | undefined;
}

export function completionRequest(body: unknown): CompletionRequest {
  if (!isFields(body)) throw badField('body', body, 'a JSON object');
  if (typeof body['model'] !== 'string') throw badField('model', body['model'], 'the id of a model');
  if (body['stream'] === true) throw badField('stream', true, 'false: only the chat route streams');
  const whole = { from: Number.MIN_SAFE_INTEGER, to: Number.MAX_SAFE_INTEGER, whole: true };
  const logprobs = number(body, 'logprobs', { from: 0, to: 20, whole: true });
  const logprobTokenIds = tokenIds(body, 'logprob_token_ids');
  if (logprobTokenIds && logprobs === undefined)
    throw badField('logprob_token_ids', logprobTokenIds, 'logprobs to be set as well');
  return {
    model: body['model'],
    prompt: promptOf(body),
    maxTokens: number(body, 'max_tokens', { ...whole, from: 0 }) ?? 16,
    temperature: number(body, 'temperature', { from: 0, to: 2 }) ?? 1,
    topP: number(body, 'top_p', { from: 0, to: 1 }) ?? 1,
    seed: number(body, 'seed', whole),
    stop: stops(body['stop']),
    logprobs,
    logprobTokenIds,
    tokensAsIds: flag(body, 'return_tokens_as_token_ids'),
    returnTokenIds: flag(body, 'return_token_ids'),
    allowed: tokenIds(body, 'allowed_token_ids'),
    promptLogprobs: number(body, 'prompt_logprobs', { from: 0, to: 20, whole: true }),
  };
}

function promptOf({ prompt }: Fields): string | Token[] {
  if (typeof prompt === 'string' && prompt !== '') return prompt;
  if (isTokens(prompt)) return prompt;
  throw badField('prompt', prompt, 'a text or a list of token ids, not empty');
}

export async function complete(
  model: TinyModel,
  request: CompletionRequest,
  signal: AbortSignal,
): Promise<object> {
  const prompt = typeof request.prompt === 'string' ? model.tokens(request.prompt) : request.prompt;
  if (prompt.length >= contextSize) {
    const message = `prompt holds ${prompt.length} tokens; ${model.id} reads fewer than ${contextSize}`;
    throw new RequestError(400, 'context_length_exceeded', message, 'prompt');
  }
  const { logprobTokenIds, allowed, promptLogprobs: top } = request;
  for (const [field, ids] of Object.entries({
    prompt,
    logprob_token_ids: logprobTokenIds,
    allowed_token_ids: allowed,
  })) {
    const odd = ids?.find((token) => !model.knows(token));
    if (odd !== undefined) throw badField(field, odd, `token ids that ${model.id} has`);
  }
  const distributions = top === undefined ? undefined : await model.distributionsAfter(prompt, signal);
  const said = await speak(model, prompt, request, signal);
  const choice = {
    index: 0,
    text: said.text,
    logprobs: request.logprobs === undefined ? null : shown(model, said.steps, request),
    finish_reason: said.finish,
    prompt_logprobs:
      distributions?.map((distribution, index) => position(model, prompt[index], distribution, top)) ?? null,
    prompt_token_ids: request.returnTokenIds ? prompt : null,
    token_ids: request.returnTokenIds ? said.steps.map(({ token }) => token) : null,
  };
  const tokens = said.steps.length;
  return {
    id: `cmpl-${randomUUID()}`,
    object: 'text_completion',
    created: Math.floor(Date.now() / 1000),
    model: model.id,
    choices: [choice],
    usage: {
      prompt_tokens: prompt.length,
      completion_tokens: tokens,
      total_tokens: prompt.length + tokens,
    },
  };
}

/** The lists of OpenAI's Completions, one entry a token. */
function shown(
  model: TinyModel,
  steps: readonly Step[],
  { logprobs, logprobTokenIds, tokensAsIds }: CompletionRequest,
): object {
  const name = (token: Token): string => (tokensAsIds ? `token_id:${token}` : model.text([token], true));
  const tokens = steps.map(({ token }) => name(token));
  let offset = 0;
  return {
    text_offset: tokens.map((token) => (offset += token.length) - token.length),
    tokens,
    token_logprobs: steps.map(({ token, distribution = new Map() }) => logprobOf(distribution, token)),
    top_logprobs: steps.map(({ token, distribution = new Map() }) => {
      const others = logprobTokenIds ?? [...distribution.keys()].slice(0, logprobs);
      const entries = [token, ...others].map((each) => [name(each), logprobOf(distribution, each)]);
      return Object.fromEntries(entries) as object;
    }),
  };
}

/** The prompt's own token and the likeliest ones, by their ids as vLLM writes them; null for the first token. */
function position(
  model: TinyModel,
  token: Token | undefined,
  distribution: Distribution | undefined,
  top = 0,
): object | null {
  if (token === undefined || !distribution) return null;
  const ids = [...distribution.keys()];
  const entries = [...new Set([token, ...ids.slice(0, top)])].map((id) => {
    const rank = 1 + ids.indexOf(id);
    const entry = {
      logprob: logprobOf(distribution, id),
      rank: rank > 0 ? rank : ids.length + 1,
      decoded_token: model.text([id], true),
    };
    return [id, entry];
  });
  return Object.fromEntries(entries);
}

async function speak(
  model: TinyModel,
  prompt: readonly Token[],
  { maxTokens, temperature, topP, seed, stop, logprobs, allowed }: CompletionRequest,
  signal: AbortSignal,
): Promise<{ text: string; steps: Step[]; finish: 'stop' | 'length' }> {
  const spoken = new SpokenText(model, stop, prompt.slice(-unfinished));
  const chance = seededChance(seed ?? randomInt(2 ** 47));
  const wanted = { maxTokens, temperature, topP, distribution: logprobs !== undefined, allowed };
  let text = '';
  const steps: Step[] = [];
  if (maxTokens === 0) return { text, steps, finish: 'length' };
  for await (const step of generate(model, prompt, wanted, chance, signal)) {
    steps.push(step);
    if (model.isEnd(step.token)) return { text: text + spoken.rest(), steps, finish: 'stop' };
    const next = spoken.add(step.token);
    text += next.text;
    if (next.stopped) return { text, steps, finish: 'stop' };
  }
  return { text: text + spoken.rest(), steps, finish: 'length' };
}
