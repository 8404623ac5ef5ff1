/** A turn of tool calls: what the next turn of the conversation must know of it, so that the same run goes on. */
import Type, { type Static } from 'typebox';
import { ChatMessage } from './chat.ts';
import { Choice } from './plan.ts';

export const Turn = Type.Object({
  v: Type.Literal(1),
  /** The run that called the tools. */
  outcome: Type.String(),
  coalition: Type.Array(Type.String()),
  choice: Choice,
  options: Type.Record(Type.String(), Type.Unknown()),
  protocolRevision: Type.String(),
  cluster: Type.String(),
  /** Aliases whose words the answer was. */
  from: Type.Array(Type.String()),
  /** Who called the tools. */
  member: Type.String(),
  /**
   * Its prompt by the client's messages: the first `before` of them, then `between`, then all from `after` on. What the
   * client has added since comes by itself.
   */
  before: Type.Integer({ minimum: 0 }),
  between: Type.Array(ChatMessage),
  after: Type.Integer({ minimum: 0 }),
});
export type Turn = Static<typeof Turn>;
