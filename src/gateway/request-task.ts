/** What a request asks of whoever answers it: its fields, checked for a team, as a task. */
import { Sampling, type ChatRequest, type RequestExtension } from '../contract/chat.ts';
import { ConsortError } from '../contract/errors.ts';
import type { Member } from '../contract/plan.ts';
import type { Task } from '../contract/task.ts';
import type { System } from './catalog.ts';
import { MOST_CHOICES } from './choices.ts';
import { mayCallTools } from './protocols/ask-all.ts';

const SAMPLING_FIELDS = Object.keys(Sampling.properties);

/** What a team cannot honour is refused by name, never dropped. */
export function checkFields(system: System, team: readonly Member[], body: ChatRequest): void {
  const { protocol } = system;
  const refuse = (field: string, value: unknown, who = `protocol ${protocol.name}`) => {
    throw new ConsortError('not_supported', [field, JSON.stringify(value), who], { param: field });
  };
  if ((body.n ?? 1) > MOST_CHOICES) refuse('n', body.n, `a team: it gives at most ${MOST_CHOICES} choices`);
  if (body.tools?.length && !protocol.tools) refuse('tools', body.tools.length);
  if (body.tools?.length && !team.some(mayCallTools)) {
    refuse('tools', body.tools.length, `members ${team.map(({ alias }) => alias).join(', ')}`);
  }
  const toolChoice = body['tool_choice'] ?? 'auto';
  if (!body.tools?.length && toolChoice !== 'auto' && toolChoice !== 'none') {
    refuse('tool_choice', toolChoice, 'a request without tools');
  }
  if (body.logprobs && team.every(({ capabilities }) => capabilities.logprobs === 0)) {
    refuse('logprobs', true, `members ${team.map(({ alias }) => alias).join(', ')}`);
  }
  if (typeof body.top_logprobs === 'number' && !body.logprobs) {
    const wrong = 'it needs logprobs: true';
    throw new ConsortError('invalid_request', ['top_logprobs', wrong], { param: 'top_logprobs' });
  }
  for (const [field, neutral] of NOT_FOR_TEAMS) {
    const value = body[field] ?? undefined;
    if (value !== undefined && !neutral.includes(JSON.stringify(value))) refuse(field, value);
  }
}

/** Fields that change what one model does and cannot be handed through a team, with their values that ask nothing. */
const NOT_FOR_TEAMS: readonly (readonly [string, readonly string[]])[] = Object.entries({
  audio: [],
  function_call: ['"auto"', '"none"'],
  functions: ['[]'],
  logit_bias: ['{}'],
  modalities: ['["text"]'],
});

export function taskOf(system: System, body: ChatRequest, extension: RequestExtension): Task {
  const sampling: Record<string, unknown> = {};
  for (const field of SAMPLING_FIELDS) {
    if (body[field] !== undefined && body[field] !== null) sampling[field] = body[field];
  }
  const { reward } = system.config;
  const gold = extension.gold;
  const verifier = extension.verifier ?? (gold === undefined ? undefined : reward?.verifier);
  const params = extension.params ?? (verifier && verifier === reward?.verifier ? reward.params : undefined);
  return {
    messages: body.messages,
    sampling,
    ...(body.tools && { tools: body.tools }),
    ...(body.response_format !== undefined && { responseFormat: body.response_format }),
    ...(system.plain ? { passThrough: passThroughOf(body) } : teamFields(body)),
    ...(gold !== undefined && { gold }),
    ...(verifier !== undefined && { verifier }),
    ...(params && { params }),
    ...(extension.choices && { choices: extension.choices }),
    ...(extension.task !== undefined && { label: extension.task }),
    ...(extension.cluster !== undefined && { cluster: extension.cluster }),
  };
}

/** What a team hands on to the calls whose words can reach the client. */
function teamFields(body: ChatRequest): Partial<Task> {
  return {
    ...(body.logprobs && { topLogprobs: body.top_logprobs ?? 0 }),
    ...(body.tools && {
      toolRules: { tool_choice: body['tool_choice'], parallel_tool_calls: body['parallel_tool_calls'] },
    }),
  };
}

/** The body as the client sent it, less what is ours. */
function passThroughOf(body: ChatRequest): Record<string, unknown> {
  const { consort: _consort, stream: _stream, messages: _messages, ...rest } = body;
  return rest;
}
