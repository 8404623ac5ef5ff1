import type { WireDatum } from './wire.ts';

/** A sequence of which only the log-probs are wanted. */
export function scoreDatum(ids: readonly number[]): WireDatum {
  const length = ids.length - 1;
  const zeros = { data: ids.slice(1).map(() => 0), dtype: 'float32', shape: [length] } as const;
  return {
    model_input: { chunks: [{ type: 'encoded_text', tokens: ids.slice(0, -1) }] },
    loss_fn_inputs: {
      target_tokens: { data: ids.slice(1), dtype: 'int64', shape: [length] },
      logprobs: zeros,
      advantages: zeros,
      weights: zeros,
    },
  };
}
