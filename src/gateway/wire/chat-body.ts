/** Chat Completions, whole: one JSON body. */
import type { Answer } from '../../contract/call.ts';
import type { Usage } from '../../contract/chat.ts';
import type { RunResult } from '../../contract/capabilities.ts';
import type { Outcome } from '../../contract/outcome.ts';
import { logprobsBody } from './logprobs-body.ts';
import type { About } from './wire.ts';

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
function traceBody({ id, plan, calls, intended, realised, absences, costMicros, durationMs }: Outcome) {
  return {
    outcome: id,
    system: plan.system,
    protocol: plan.protocol,
    members: plan.members.map(({ alias }) => alias),
    ...(plan.merged && { merged: plan.merged.alias }),
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

/** The trace of one run, or one for each choice. */
export function traceFields(outcomes: readonly Outcome[]): object {
  const traces = outcomes.map(traceBody);
  return traces.length === 1 ? { trace: traces[0] } : { traces };
}

export function totalUsage(outcomes: readonly Outcome[]): Usage {
  return outcomes.reduce(
    (sum, { usage }) => ({
      inputTokens: sum.inputTokens + usage.inputTokens,
      outputTokens: sum.outputTokens + usage.outputTokens,
    }),
    { inputTokens: 0, outputTokens: 0 },
  );
}

/** The body for a system's answers. */
export function chatBody(results: readonly RunResult[], options: About): string {
  const { id, model, created, trace, fingerprint, topLogprobs } = options;
  const outcomes = results.map(({ outcome }) => outcome);
  return JSON.stringify({
    id,
    object: 'chat.completion',
    created,
    model,
    choices: results.flatMap(({ answer }, index) => (answer ? choiceBody(answer, index, topLogprobs) : [])),
    usage: usageBody(totalUsage(outcomes)),
    system_fingerprint: fingerprint,
    ...(trace && { consort: traceFields(outcomes) }),
  });
}

function choiceBody({ message, finishReason, logprobs }: Answer, index: number, topLogprobs?: number) {
  return {
    index,
    message: {
      role: 'assistant',
      content: message.text === '' && message.toolCalls ? null : message.text,
      refusal: null,
      ...(message.reasoning && { reasoning_content: message.reasoning }),
      ...(message.toolCalls && { tool_calls: message.toolCalls }),
    },
    logprobs: logprobsBody(logprobs, topLogprobs),
    finish_reason: finishReason,
  };
}
