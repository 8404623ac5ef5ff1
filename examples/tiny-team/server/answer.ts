/** Runs all choices of a request side by side and emits what they say as they say it. */
import { randomInt } from 'node:crypto';
import type { Token } from 'node-llama-cpp';
import type { ChatRequest } from './chat-request.ts';
import { generate, type Step } from './generate.ts';
import { badField, RequestError } from './request-error.ts';
import { seededChance } from './sample.ts';
import { SpokenText } from './spoken-text.ts';
import { contextSize, type TinyModel } from './tiny-model.ts';

export interface Delta {
  index: number;
  /** May be empty: a token need not be text that can be sent yet. */
  text: string;
  step?: Step;
  finish?: 'stop' | 'length';
}

export type Emit = (delta: Delta) => void;

export function promptOf(model: TinyModel, request: ChatRequest): Token[] {
  const prompt = model.prompt(request.turns, request);
  const odd = request.logprobTokenIds?.find((token) => !model.knows(token));
  if (odd !== undefined) throw badField('logprob_token_ids', odd, `token ids that ${model.id} has`);
  if (prompt.length < contextSize) return prompt;
  const message = `messages hold ${prompt.length} tokens; ${model.id} reads fewer than ${contextSize}`;
  throw new RequestError(400, 'context_length_exceeded', message, 'messages');
}

export async function answer(
  model: TinyModel,
  prompt: readonly Token[],
  request: ChatRequest,
  signal: AbortSignal,
  emit: Emit,
): Promise<void> {
  const seed = request.seed ?? randomInt(2 ** 47);
  const choices = Array.from({ length: request.n }, (_, index) =>
    speak(model, prompt, request, { index, seed: seed + index }, signal, emit),
  );
  try {
    await Promise.all(choices);
  } finally {
    // The call is over when none of its choices uses the model any more, also when one of them has failed.
    await Promise.allSettled(choices);
  }
}

async function speak(
  model: TinyModel,
  prompt: readonly Token[],
  request: ChatRequest,
  { index, seed }: { index: number; seed: number },
  signal: AbortSignal,
  emit: Emit,
): Promise<void> {
  const spoken = new SpokenText(model, request.stop);
  const wanted = { ...request, distribution: request.logprobs };
  for await (const step of generate(model, prompt, wanted, seededChance(seed), signal)) {
    if (model.isEnd(step.token)) {
      emit({ index, text: spoken.rest(), step, finish: 'stop' });
      return;
    }
    const { text, stopped } = spoken.add(step.token);
    if (stopped) {
      emit({ index, text, step, finish: 'stop' });
      return;
    }
    emit({ index, text, step });
  }
  emit({ index, text: spoken.rest(), finish: 'length' });
}
