/** Tokens as OpenAI's completions count them. */
import type { Usage } from '../../contract/chat.ts';
import type { Outcome } from '../../contract/outcome.ts';

export interface UsageBody {
  prompt_tokens: number;
  completion_tokens: number;
  total_tokens: number;
}

export function usageBody({ inputTokens, outputTokens }: Usage): UsageBody {
  return {
    prompt_tokens: inputTokens,
    completion_tokens: outputTokens,
    total_tokens: inputTokens + outputTokens,
  };
}

/** What all runs of a request took. */
export function totalUsage(outcomes: readonly Outcome[]): Usage {
  return outcomes.reduce(
    (sum, { usage }) => ({
      inputTokens: sum.inputTokens + usage.inputTokens,
      outputTokens: sum.outputTokens + usage.outputTokens,
    }),
    { inputTokens: 0, outputTokens: 0 },
  );
}
