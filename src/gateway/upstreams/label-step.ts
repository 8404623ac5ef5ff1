/**
 * A label step as fields of a Chat Completions body: the strongest way of holding an answer to a list of labels that
 * the endpoint has. A free step asks for nothing, as tokens made under a constraint cannot be trained.
 */
import type { Call, LabelStep } from '../../contract/call.ts';
import type { Capabilities } from '../../contract/plan.ts';

/** OpenAI's limit of `top_logprobs`; vLLM's default. */
const MOST_LOGPROBS = 20;
/** The largest bias: every other token is out of reach. */
const FORCED = 100;

type Fields = Readonly<Record<string, unknown>>;

const CONSTRAINTS: Readonly<
  Record<NonNullable<Capabilities['choice']>, (labels: readonly string[]) => Fields>
> = {
  structured_outputs: (labels) => ({ structured_outputs: { choice: labels } }),
  guided_choice: (labels) => ({ guided_choice: labels }),
  json_schema: (labels) => ({
    response_format: {
      type: 'json_schema',
      json_schema: {
        name: 'label',
        strict: true,
        schema: {
          type: 'object',
          properties: { label: { type: 'string', enum: labels } },
          required: ['label'],
          additionalProperties: false,
        },
      },
    },
  }),
};

/** One token, and only one of the labels'; undefined unless each label is known to be one token. */
function biasFields({ labels }: LabelStep, { member, sampling }: Call): Fields | undefined {
  const ids = labels.flatMap((label) => member.capabilities.labelTokens?.[label] ?? []);
  if (ids.length < labels.length) return undefined;
  const limit = sampling.max_completion_tokens === undefined ? 'max_tokens' : 'max_completion_tokens';
  return { logit_bias: Object.fromEntries(ids.map((id) => [id, FORCED])), [limit]: 1 };
}

export function labelFields(step: LabelStep, call: Call): Fields {
  const { choice, logprobs = 0 } = call.member.capabilities;
  if (step.free) return {};
  const constraint = choice ? CONSTRAINTS[choice](step.labels) : biasFields(step, call);
  const top = Math.min(logprobs, MOST_LOGPROBS);
  // Where nothing holds the member to the labels, the likeliest of them is the next best.
  const wantsLogprobs = top > 0 && (step.probabilities || !constraint);
  return { ...constraint, ...(wantsLogprobs && { logprobs: true, top_logprobs: top }) };
}
