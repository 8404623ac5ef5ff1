/** The question: one conversation with what is needed to grade its answer. */
import Type, { type Static } from 'typebox';
import { PassedRoute } from './call.ts';
import { ChatMessage, Sampling } from './chat.ts';

export const Task = Type.Object({
  messages: Type.Array(ChatMessage, { minItems: 1 }),
  sampling: Sampling,
  tools: Type.Optional(Type.Array(Type.Unknown())),
  /** `tool_choice` and `parallel_tool_calls`, as the client sent them. */
  toolRules: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
  responseFormat: Type.Optional(Type.Unknown()),
  /** How many alternatives a token the client wants to see; absent when it wants no log-probabilities. */
  topLogprobs: Type.Optional(Type.Integer({ minimum: 0, maximum: 20 })),
  choices: Type.Optional(Type.Record(Type.String(), Type.String())),
  gold: Type.Optional(Type.Unknown()),
  verifier: Type.Optional(Type.String()),
  params: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
  label: Type.Optional(Type.String()),
  cluster: Type.Optional(Type.String()),
  /** The client's body less what Consort reads: sent on to a single model untouched. */
  passThrough: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
  /** Where it is sent to if not to chat. */
  route: Type.Optional(PassedRoute),
});
export type Task = Static<typeof Task>;

/** One line of a task file. `prompt` is short for one user message. */
export const TaskRow = Type.Object(
  {
    id: Type.String({ minLength: 1 }),
    prompt: Type.Optional(Type.String({ minLength: 1 })),
    messages: Type.Optional(Type.Array(ChatMessage, { minItems: 1 })),
    choices: Type.Optional(Type.Record(Type.String(), Type.String())),
    gold: Type.Unknown(),
    verifier: Type.String({ minLength: 1 }),
    params: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
    task: Type.Optional(Type.String()),
    cluster: Type.Optional(Type.String()),
  },
  { additionalProperties: false },
);
export type TaskRow = Static<typeof TaskRow>;
