/** What goes wrong between the learner and a trainer: a part of the error catalogue. */
import { service, type Entry } from './error-entry.ts';

export const TRAINER_ERRORS = {
  trainer_unreachable: service(
    502,
    true,
    'The trainer could not be reached: %s',
    'Check trainers[].baseUrl and that the server is up.',
  ),
  trainer_status: service(502, false, 'The trainer answered HTTP %s to %s: %s', 'See the trainer’s message.'),
  trainer_malformed: service(
    502,
    false,
    'The trainer sent what is not a reply to %s: %s',
    'Check that trainers[].baseUrl points at a server of the Tinker protocol.',
  ),
  trainer_timeout: service(
    504,
    true,
    'The trainer did not finish %s within %s ms',
    'Raise trainers[].timeouts, or send less in a step.',
  ),
  trainer_failed: service(
    502,
    false,
    'The trainer failed at %s: %s',
    'See the trainer’s log; the step was dropped and the weights before it are kept.',
  ),
  trainer_lost: service(
    502,
    true,
    'The trainer no longer knows %s',
    'Nothing to do: the model is built anew from its last saved state, and the journal is replayed.',
  ),
  trainer_conflict: service(
    409,
    false,
    'The trainer refuses %s: another writer used its number or its name',
    'Let one learner write to a run; begin a new run when the journal was lost.',
  ),
  trainer_dialect: service(
    501,
    false,
    'This trainer cannot be trained with: %s',
    'Use a server that docs/trainers.md lists.',
  ),
  trainer_not_finite: service(
    422,
    false,
    'There is %s among the %s',
    'Look for a broken rollout or a learning rate that is too high; the step was not taken.',
  ),
  trainer_off_policy: service(
    409,
    false,
    'Trainer and serving fleet differ by %s nats a token on the same tokens; %s are allowed',
    'Check that both have the same base, adapter, dtype and chat template, and that temperature is 1.',
  ),
  trainer_lease_lost: service(
    409,
    true,
    'Run %s has another writer: token %s is no longer the newest',
    'Nothing to do: the other learner goes on.',
  ),
  trainer_journal: service(
    500,
    false,
    'The journal %s cannot be replayed: %s',
    'Begin a new run; the last saved state of this one stays with the trainer.',
  ),
  trainer_archive: service(
    502,
    false,
    'The exported policy is refused: %s',
    'See docs/trainers.md for what an archive may hold.',
  ),
} as const satisfies Record<string, Entry>;
