/** Merged weights: models whose weights were made from those of other models, outside of Consort. */
import Type, { type Static } from 'typebox';

/** Names as mergekit and PEFT have them; `cli/merge/methods.ts` says what each needs. */
export const mergeMethod = (description: string) =>
  Type.Union(
    [
      Type.Literal('linear'),
      Type.Literal('slerp'),
      Type.Literal('task_arithmetic'),
      Type.Literal('ties'),
      Type.Literal('dare_linear'),
      Type.Literal('dare_ties'),
      Type.Literal('model_stock'),
      Type.Literal('cat'),
      Type.Literal('svd'),
      Type.Literal('ties_svd'),
      Type.Literal('dare_linear_svd'),
      Type.Literal('dare_ties_svd'),
      Type.Literal('magnitude_prune'),
      Type.Literal('magnitude_prune_svd'),
    ],
    { description },
  );
export type MergeMethod = Static<ReturnType<typeof mergeMethod>>;

const strict = { additionalProperties: false };

export const WeightsConfig = Type.Object(
  {
    at: Type.String({
      minLength: 1,
      description: 'Hugging Face name or directory of the weights, or of the LoRA adapter.',
    }),
    base: Type.String({
      minLength: 1,
      description: 'Hugging Face name or directory of what they were trained from.',
    }),
    architecture: Type.String({
      minLength: 1,
      description: 'Of the base, as in its config.json: LlamaForCausalLM.',
    }),
    adapter: Type.Boolean({ default: false, description: 'Whether they are a LoRA adapter for `base`.' }),
  },
  strict,
);
export type WeightsConfig = Static<typeof WeightsConfig>;

export const MergedConfig = Type.Object(
  {
    parents: Type.Array(Type.String(), {
      minItems: 2,
      maxItems: 20,
      uniqueItems: true,
      description: 'The models that were merged into this one; its `revision` names them as they were then.',
    }),
    method: mergeMethod('How their weights were merged.'),
  },
  strict,
);
