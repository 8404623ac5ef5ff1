/** One choice, token by token. */
import type { LlamaContextSequence, Token } from 'node-llama-cpp';
import { among, sample, type Distribution, type Sampling } from './sample.ts';
import { contextSize, type TinyModel } from './tiny-model.ts';

export interface Wanted extends Sampling {
  maxTokens: number | undefined;
  /** Whether each step should carry the distribution that its token was drawn from. */
  distribution: boolean;
  /** The only tokens that may be drawn. */
  allowed?: readonly Token[] | undefined;
}

export interface Step {
  token: Token;
  distribution?: Distribution;
}

/** llama.cpp's side of it; a token handed back takes the place of the one that it drew. */
type Evaluation = AsyncGenerator<{ token: Token; probabilities?: Distribution }, void, Token>;

/** Yields the end token too: whoever learns from a reply has to learn to stop. */
export async function* generate(
  model: TinyModel,
  prompt: readonly Token[],
  wanted: Wanted,
  chance: () => number,
  signal: AbortSignal,
): AsyncGenerator<Step, void, void> {
  const sequence = await model.borrow(signal);
  try {
    // A prompt that shares its start with the last one is evaluated anew all the same: a cached start is
    // evaluated in other batches, whose last digits differ, and one seed would not always give one text.
    await sequence.clearHistory();
    for await (const step of steps(sequence, prompt, wanted, chance)) {
      signal.throwIfAborted();
      yield step;
      if (model.isEnd(step.token)) return;
    }
  } finally {
    model.giveBack(sequence);
  }
}

async function* steps(
  sequence: LlamaContextSequence,
  prompt: readonly Token[],
  { temperature, topP, maxTokens = contextSize, distribution: kept, allowed }: Wanted,
  chance: () => number,
): AsyncGenerator<Step, void, void> {
  // Reading the distribution out costs a fifth of the speed, so a plain greedy call goes without.
  const plain = { topK: 0, topP: 1, minP: 0, yieldEogToken: true };
  const evaluation: Evaluation =
    temperature > 0 || kept || allowed
      ? sequence.evaluateWithMetadata([...prompt], { probabilities: true }, { ...plain, temperature: 1 })
      : sequence.evaluateWithMetadata([...prompt], {}, { ...plain, temperature: 0 });
  const limit = Math.min(maxTokens, contextSize - prompt.length);
  try {
    let replacement: [] | [Token] = [];
    for (let count = 0; count < limit; count += 1) {
      const next = await evaluation.next(...replacement);
      if (next.done) return;
      const distribution = next.value.probabilities;
      const token = distribution
        ? sample(among(distribution, allowed), { temperature, topP }, chance)
        : next.value.token;
      replacement = [token];
      yield { token, ...(kept && distribution && { distribution }) };
    }
  } finally {
    await evaluation.return();
  }
}
