/** How a member mends its own answer: its words are its own turn, and what it is to read stands after them, fenced. */
import type { Random } from '../../contract/capabilities.ts';
import type { Call } from '../../contract/call.ts';
import type { Task } from '../../contract/task.ts';
import { callOf, type Asking, type Contribution } from './ask-all.ts';
import { peersBlock, spokenBy, withUserText, type Showing } from './peers.ts';
import { roomFor } from './room.ts';

export interface Revision
  extends
    Pick<Showing, 'introduction' | 'instruction'>,
    Pick<Asking, 'slot' | 'canReachClient' | 'speaks' | 'tools'> {
  readonly own: Contribution;
  /** Others' texts; at least one. */
  readonly shown: readonly Contribution[];
}

export function revisionCall(
  task: Task,
  { own, shown, introduction, instruction, ...asking }: Revision,
  random: Random,
): Call {
  const conversation = [...task.messages, { role: 'assistant' as const, content: spokenBy(own) }];
  const room = roomFor(own.member, conversation, task.sampling);
  const block = peersBlock(shown, { ...(introduction && { introduction }), instruction, random, room });
  return callOf(task, own.member, {
    ...asking,
    purpose: 'revise',
    messages: withUserText(conversation, block),
    reads: [own, ...shown].map(({ slot }) => slot),
  });
}
