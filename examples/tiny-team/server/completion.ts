/**
 * `/v1/completions` as far as vLLM's clients use it to look into a model: a prompt as text or token ids, the
 * log-probabilities of its own tokens, and what the model says after it. Whole answers only.
 */
import { randomInt, randomUUID } from 'node:crypto';
import type { Token } from 'node-llama-cpp';
import { isFields, number, refuse, stops, type Fields } from './chat-request.ts';
import { generate } from './generate.ts';
import { badField, RequestError } from './request-error.ts';
import { logprobOf, seededChance, type Distribution } from './sample.ts';
import { SpokenText } from './spoken-text.ts';
import { contextSize, type TinyModel } from './tiny-model.ts';

interface CompletionRequest {
  model: string;
  prompt: string | Token[];
  maxTokens: number;
  temperature: number;
  topP: number;
  seed: number | undefined;
  stop: string[];
  /** How many of the likeliest tokens each position of the prompt shows besides its own; undefined shows none. */
  promptLogprobs: number | undefined;
}

export function completionRequest(body: unknown): CompletionRequest {
  if (!isFields(body)) throw badField('body', body, 'a JSON object');
  if (typeof body['model'] !== 'string') throw badField('model', body['model'], 'the id of a model');
  if (body['stream'] === true) throw badField('stream', true, 'false: only the chat route streams');
  refuse(body, 'logprobs', 'nothing: ask for prompt_logprobs, or the chat route');
  const whole = { from: Number.MIN_SAFE_INTEGER, to: Number.MAX_SAFE_INTEGER, whole: true };
  return {
    model: body['model'],
    prompt: promptOf(body),
    maxTokens: number(body, 'max_tokens', { ...whole, from: 0 }) ?? 16,
    temperature: number(body, 'temperature', { from: 0, to: 2 }) ?? 1,
    topP: number(body, 'top_p', { from: 0, to: 1 }) ?? 1,
    seed: number(body, 'seed', whole),
    stop: stops(body['stop']),
    promptLogprobs: number(body, 'prompt_logprobs', { from: 0, to: 20, whole: true }),
  };
}

function promptOf({ prompt }: Fields): string | Token[] {
  if (typeof prompt === 'string' && prompt !== '') return prompt;
  const isToken = (id: unknown): id is Token => Number.isSafeInteger(id) && Number(id) >= 0;
  if (Array.isArray(prompt) && prompt.length > 0 && prompt.every(isToken)) return prompt;
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
  const odd = prompt.find((token) => !model.knows(token));
  if (odd !== undefined) throw badField('prompt', odd, `token ids that ${model.id} has`);
  const { promptLogprobs: top } = request;
  const distributions = top === undefined ? undefined : await model.distributionsAfter(prompt, signal);
  const said = await speak(model, prompt, request, signal);
  const choice = {
    index: 0,
    text: said.text,
    logprobs: null,
    finish_reason: said.finish,
    prompt_logprobs:
      distributions?.map((distribution, index) => position(model, prompt[index], distribution, top)) ?? null,
  };
  return {
    id: `cmpl-${randomUUID()}`,
    object: 'text_completion',
    created: Math.floor(Date.now() / 1000),
    model: model.id,
    choices: [choice],
    usage: {
      prompt_tokens: prompt.length,
      completion_tokens: said.tokens,
      total_tokens: prompt.length + said.tokens,
    },
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
  const shown = new Set([token, ...ids.slice(0, top)]);
  const entries = [...shown].map((id) => {
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
  { maxTokens, temperature, topP, seed, stop }: CompletionRequest,
  signal: AbortSignal,
): Promise<{ text: string; tokens: number; finish: 'stop' | 'length' }> {
  const spoken = new SpokenText(model, stop);
  const chance = seededChance(seed ?? randomInt(2 ** 47));
  const wanted = { maxTokens, temperature, topP, distribution: false };
  let text = '';
  let tokens = 0;
  if (maxTokens === 0) return { text, tokens, finish: 'length' };
  for await (const { token } of generate(model, prompt, wanted, chance, signal)) {
    tokens += 1;
    if (model.isEnd(token)) return { text: text + spoken.rest(), tokens, finish: 'stop' };
    const next = spoken.add(token);
    text += next.text;
    if (next.stopped) return { text, tokens, finish: 'stop' };
  }
  return { text: text + spoken.rest(), tokens, finish: 'length' };
}
