/** Chat Completions, whole: one JSON body. */
import type { Answer } from '../../contract/call.ts';
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

/** What a client that asked for a trace is shown of the run. */
export function traceBody({
  id,
  plan,
  calls,
  intended,
  realised,
  absences,
  costMicros,
  durationMs,
}: Outcome) {
  return {
    outcome: id,
    system: plan.system,
    protocol: plan.protocol,
    members: plan.members.map(({ alias }) => alias),
    intended,
    realised,
    absences,
    cost_usd: costMicros / 1e6,
    duration_ms: Math.round(durationMs),
    simulated: plan.simulated,
    calls: calls.map((call) => ({
      slot: call.slot,
      member: call.member,
      purpose: call.purpose,
      status: call.status,
      reused: call.reused,
      start_ms: Math.round(call.startMs),
      end_ms: Math.round(call.endMs),
      usage: usageBody(call.usage),
      cost_usd: call.costMicros / 1e6,
    })),
  };
}

/** The body for a system's answer. `created` is in Unix seconds. */
export function chatBody(outcome: Outcome, answer: Answer, trace: boolean): string {
  const { message } = answer;
  return JSON.stringify({
    id: `chatcmpl-${outcome.id}`,
    object: 'chat.completion',
    created: Math.floor(outcome.startedAt / 1000),
    model: outcome.plan.asked,
    choices: [
      {
        index: 0,
        message: {
          role: 'assistant',
          content: message.text === '' && message.toolCalls ? null : message.text,
          refusal: null,
          ...(message.reasoning && { reasoning_content: message.reasoning }),
          ...(message.toolCalls && { tool_calls: message.toolCalls }),
        },
        logprobs: answer.logprobs ? { content: answer.logprobs } : null,
        finish_reason: answer.finishReason,
      },
    ],
    usage: usageBody(outcome.usage),
    ...(outcome.simulated && { system_fingerprint: 'sim-pool/1' }),
    ...(trace && { consort: { trace: traceBody(outcome) } }),
  });
}
