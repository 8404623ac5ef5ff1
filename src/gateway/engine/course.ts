/** How a run went besides its calls: the best answer so far, and whether it was settled before all had been heard. */
import type { Answer } from '../../contract/call.ts';
import type { ConsortError } from '../../contract/errors.ts';
import type { CallRecord, Outcome } from '../../contract/outcome.ts';
import type { ProtocolContext } from '../protocols/protocol.ts';

export class Course {
  best: { readonly slot: string; readonly answer: Answer } | undefined;
  earlyExit: Outcome['earlyExit'];
  /** Milliseconds until the client could hear something; null until then. */
  firstPartMs: number | null = null;
  readonly #mayStop: (share: number) => boolean;

  /** @param mayStop whether this run is one of the share in which calls may be stopped */
  constructor(mayStop: (share: number) => boolean) {
    this.#mayStop = mayStop;
  }

  readonly offer: ProtocolContext['offer'] = (best) => {
    this.best = best;
  };

  readonly settle: ProtocolContext['settle'] = (share) => {
    const stops = this.#mayStop(share);
    this.earlyExit = stops ? 'taken' : 'withheld';
    return stops;
  };
}

/**
 * What cut a run short, if anything did: its own time, or the money for a call. Of a run that answered all the same,
 * only time that some call lacked counts.
 */
export function cutOf(
  reason: ConsortError | undefined,
  calls: readonly CallRecord[],
  hasAnswer: boolean,
): Outcome['cutShort'] {
  const some = (code: string) => calls.some(({ errorCode }) => errorCode === code);
  if (reason?.code === 'deadline') return hasAnswer && !some('deadline') ? undefined : 'deadline';
  return !hasAnswer && some('budget_spent') ? 'budget' : undefined;
}
