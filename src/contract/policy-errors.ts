/** The part of the error catalogue about releases of a policy and the fleet that serves them. */
import { request, service, type Entry } from './error-entry.ts';

export const POLICY_ERRORS = {
  train_no_signal: service(
    422,
    false,
    'Run %s learned nothing from %s batches in a row: %s',
    'Give it prompts that the team solves sometimes, or larger groups; docs/training.md explains the reasons.',
  ),
  train_busy: service(
    409,
    true,
    'Run %s is held by another process',
    'Wait until that process has ended, or give the run another name.',
  ),
  release_not_found: request(
    404,
    'There is no version %s of policy %s',
    'GET /v1/releases lists the versions there are.',
  ),
  release_move_illegal: request(
    409,
    'Version %s of policy %s is %s and cannot become %s',
    'From there it can become: %s.',
  ),
  release_conflict: {
    status: 409,
    retryable: true,
    type: 'api_error',
    message: 'The releases of policy %s were changed by another controller meanwhile',
    remedy: 'Read them again and decide anew.',
  },
  artifact_invalid: service(
    422,
    false,
    'The adapter at %s cannot be served: %s',
    'Export it again; docs/releases.md lists what an adapter must be.',
  ),
  probe_failed: service(
    502,
    false,
    'Replica %s does not serve the weights of %s: %s',
    'Compare base model, tokenizer and dtype of trainer and replica, then load the adapter under a new version.',
  ),
  serving_unreachable: service(
    502,
    true,
    'Replica %s of the serving fleet could not be reached: %s',
    'Check its address and that it is up.',
  ),
  serving_status: service(
    502,
    true,
    'Replica %s answered HTTP %s to %s: %s',
    'See the replica’s message and its log.',
  ),
  serving_malformed: service(
    502,
    false,
    'Replica %s answered %s with what is not understood: %s',
    'Check that its address points at a serving engine of a version that docs/releases.md names.',
  ),
  serving_disabled: service(
    502,
    false,
    'Replica %s takes no adapters at run time',
    'Start vLLM with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True.',
  ),
  serving_name_taken: service(
    409,
    false,
    'Replica %s serves other weights under the name %s: %s',
    'A name is never used for other weights: unload it there, or export under the next version.',
  ),
  serving_path_missing: service(
    502,
    false,
    'Replica %s finds no adapter %s at %s',
    'Mount the folder of the adapters on every replica at the same path.',
  ),
  serving_rank_too_big: service(
    422,
    false,
    'Replica %s refuses the rank of %s: %s',
    'Start the replicas with a --max-lora-rank of at least the adapter’s rank.',
  ),
  serving_refused: service(
    502,
    false,
    'Replica %s refuses the adapter %s: %s',
    'See the replica’s message and its log.',
  ),
  serving_not_loaded: service(
    502,
    true,
    'Replica %s does not list the adapter %s',
    'A replica forgets its adapters at a restart: load it again.',
  ),
  serving_wrong_base: service(
    502,
    false,
    'Replica %s serves %s over %s, not over %s',
    'Start every replica with the base model that the policy is trained from.',
  ),
  serving_partial: service(
    502,
    true,
    'Only %s of %s replicas serve %s: %s',
    'Mend these replicas and load again; what is loaded stays and is not loaded twice.',
  ),
} as const satisfies Record<string, Entry>;
