/** Answers as OpenAI's Chat Completions writes them, with vLLM's `prompt_token_ids` and `token_ids` on request. */
import { randomUUID } from 'node:crypto';
import type { Token } from 'node-llama-cpp';
import type { Delta } from './answer.ts';
import type { ChatRequest } from './chat-request.ts';
import type { Step } from './generate.ts';
import { logprobOf, type Distribution } from './sample.ts';
import type { TinyModel } from './tiny-model.ts';

/** One response on its way out: its head, and how its parts are written. */
export class Wire {
  readonly #model: TinyModel;
  readonly #request: ChatRequest;
  readonly #prompt: readonly Token[];
  readonly #id = `chatcmpl-${randomUUID()}`;
  readonly #created = Math.floor(Date.now() / 1000);

  constructor(model: TinyModel, request: ChatRequest, prompt: readonly Token[]) {
    this.#model = model;
    this.#request = request;
    this.#prompt = prompt;
  }

  whole(deltas: readonly Delta[]): object {
    const choices = Array.from({ length: this.#request.n }, (_, index) => {
      const own = deltas.filter((delta) => delta.index === index);
      const content = own.map(({ text }) => text).join('');
      return {
        index,
        message: { role: 'assistant', content, refusal: null },
        ...this.#details(own),
        finish_reason: own.at(-1)?.finish ?? null,
      };
    });
    const usage = this.#usage(deltas);
    return { ...this.#head('chat.completion'), choices, usage, ...this.#promptIds() };
  }

  opening(): object[] {
    return Array.from({ length: this.#request.n }, (_, index) => {
      const choice = {
        index,
        delta: { role: 'assistant', content: '' },
        logprobs: null,
        finish_reason: null,
      };
      return { ...this.#head('chat.completion.chunk'), choices: [choice], ...this.#promptIds() };
    });
  }

  chunk(delta: Delta): object {
    const { index, text, finish = null } = delta;
    const said = text === '' ? {} : { content: text };
    const choice = { index, delta: said, ...this.#details([delta]), finish_reason: finish };
    return { ...this.#head('chat.completion.chunk'), choices: [choice] };
  }

  usage(deltas: readonly Delta[]): object {
    return { ...this.#head('chat.completion.chunk'), choices: [], usage: this.#usage(deltas) };
  }

  #head(object: string): object {
    return {
      id: this.#id,
      object,
      created: this.#created,
      model: this.#model.id,
      system_fingerprint: 'tiny-team',
    };
  }

  #promptIds(): object {
    return this.#request.returnTokenIds ? { prompt_token_ids: this.#prompt } : {};
  }

  #details(deltas: readonly Delta[]): object {
    const { logprobs, returnTokenIds } = this.#request;
    const steps = deltas.flatMap(({ step }) => step ?? []);
    return {
      logprobs: logprobs ? { content: steps.map((step) => this.#logprob(step)), refusal: null } : null,
      ...(returnTokenIds && { token_ids: steps.map(({ token }) => token) }),
    };
  }

  #usage(deltas: readonly Delta[]): object {
    const prompt = this.#prompt.length;
    const completion = deltas.filter(({ step }) => step).length;
    return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion };
  }

  /** Of the distribution at temperature 1, whatever temperature the token was drawn at. */
  #logprob({ token, distribution = new Map() }: Step): object {
    const { topLogprobs, logprobTokenIds } = this.#request;
    const likeliest = [...distribution.keys()].slice(0, topLogprobs);
    const top = logprobTokenIds ? new Set([token, ...logprobTokenIds]) : likeliest;
    return {
      ...this.#entry(token, distribution),
      top_logprobs: [...top].map((other) => this.#entry(other, distribution)),
    };
  }

  #entry(token: Token, distribution: Distribution): object {
    const text = this.#request.tokensAsIds ? `token_id:${token}` : this.#model.text([token], true);
    return { token: text, logprob: logprobOf(distribution, token), bytes: [...Buffer.from(text)] };
  }
}
