/** Chat Completions, whole: one JSON body. */
import type { Answer } from '../../contract/call.ts';
import type { RunResult } from '../../contract/capabilities.ts';
import { logprobsBody } from './logprobs-body.ts';
import { traceFields } from './trace-body.ts';
import { totalUsage, usageBody } from './usage-body.ts';
import type { About } from './wire.ts';

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
