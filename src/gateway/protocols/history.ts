/** The parts of a long conversation: what stays word for word, and what can be summarised. */
import { textOf, type ChatMessage } from '../../contract/chat.ts';
import { bytesOf } from './room.ts';

/** As `room.ts` counts. */
const BYTES_PER_TOKEN = 3;

export interface History {
  /** System and developer turns at its beginning. */
  readonly rules: readonly ChatMessage[];
  /** What came before the last turns. */
  readonly past: readonly ChatMessage[];
  /** The last turns, whole: results of tools are never parted from the turn that called them. */
  readonly recent: readonly ChatMessage[];
}

const isRule = ({ role }: ChatMessage) => role === 'system' || role === 'developer';

/** @param kept the least number of turns that stay as they are; at least 1 */
export function historyOf(messages: readonly ChatMessage[], kept: number): History {
  const end = messages.findIndex((message) => !isRule(message));
  const start = end === -1 ? messages.length : end;
  let from = Math.max(start, messages.length - kept);
  while (from > start && messages[from]?.role === 'tool') from--;
  return {
    rules: messages.slice(0, start),
    past: messages.slice(start, from),
    recent: messages.slice(from),
  };
}

/** A turn as a text: who says it, the words, the calls of tools. */
export function transcriptOf(messages: readonly ChatMessage[]): string {
  return messages
    .map((message) => {
      const calls = message.tool_calls?.map(
        (call) => `calls ${call.function.name}(${call.function.arguments})`,
      );
      return [`${message.role}:`, textOf(message), ...(calls ?? [])].filter(Boolean).join('\n');
    })
    .join('\n\n');
}

/** About how many tokens the turns are. */
export function tokensIn(messages: readonly ChatMessage[]): number {
  return Math.ceil(bytesOf(transcriptOf(messages)) / BYTES_PER_TOKEN);
}

/** The results of tools at the end of the conversation, where the next turn answers them. */
export function lastResults(messages: readonly ChatMessage[]): readonly ChatMessage[] {
  const before = messages.findLastIndex(({ role }) => role !== 'tool');
  return messages.slice(before + 1);
}
