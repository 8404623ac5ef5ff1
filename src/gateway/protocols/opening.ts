/** How most protocols begin: everybody answers the client's own request, once or several times, side by side. */
import type { Call } from '../../contract/call.ts';
import type { Member } from '../../contract/plan.ts';
import type { Task } from '../../contract/task.ts';
import { callOf, type Asking } from './ask-all.ts';

export interface Opening extends Pick<Asking, 'canReachClient'> {
  /** The first part of the slots; the second is the member, the third the sample after the first. */
  readonly stage: string;
  readonly samples?: number;
}

/** In the order of the members, each member's samples together. */
export function openingCalls(
  task: Task,
  members: readonly Member[],
  { stage, samples = 1, canReachClient }: Opening,
): Call[] {
  return members.flatMap((member) =>
    Array.from({ length: samples }, (_, sample) =>
      callOf(task, member, {
        slot: [stage, member.alias, ...(sample > 0 ? [sample] : [])].join('/'),
        purpose: 'answer',
        messages: task.messages,
        sample,
        canReachClient,
      }),
    ),
  );
}
