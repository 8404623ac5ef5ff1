/** Whose fault an error is: that decides whether a model is built anew, a step is dropped, or the caller waits. */
import { ConsortError } from '../../contract/errors.ts';

export type Fault = 'outage' | 'server' | 'step' | 'writer';

/** Who has to change for it to go better: nobody soon (`outage`), the server's model, the step, or this writer. */
export function faultOf(error: unknown): Fault {
  if (!ConsortError.is(error)) return 'step';
  switch (error.code) {
    case 'trainer_failed':
    case 'trainer_lost':
      return 'server';
    case 'trainer_unreachable':
    case 'trainer_timeout':
    case 'shutting_down':
      return 'outage';
    case 'trainer_lease_lost':
    case 'trainer_conflict':
    case 'trainer_journal':
      return 'writer';
    case 'trainer_status':
      return error.retryable ? 'outage' : 'step';
    default:
      return 'step';
  }
}
