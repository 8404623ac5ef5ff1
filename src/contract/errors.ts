/**
 * The error catalogue: the only errors that leave Consort. Each has a code, an HTTP status, a message that names
 * the offending value, and a remedy. `docs/reference/errors.md` lists the same codes; a test compares them.
 */
import { request, service, type Entry } from './error-entry.ts';
import { MERGE_ERRORS } from './merge-errors.ts';
import { POLICY_ERRORS } from './policy-errors.ts';
import { TRAINER_ERRORS } from './trainer-errors.ts';

export const CATALOGUE = {
  invalid_request: request(400, '%s: %s', 'Correct the named field; the HTTP reference lists what it takes.'),
  invalid_json: request(400, 'The body is not valid JSON: %s', 'Send one JSON object, UTF-8 encoded.'),
  body_too_large: request(
    413,
    'The body is larger than %s bytes',
    'Send less, or raise server.maxBodyBytes.',
  ),
  unsupported_media_type: request(415, 'Content type %s is not read here', 'Send application/json.'),
  not_supported: request(
    400,
    '%s: %s cannot be honoured by %s',
    'Leave the field out, or ask for a model that can honour it.',
  ),
  images_unread: request(
    400,
    'Model %s does not read images',
    'Ask members that do (capabilities.images), or send text only.',
  ),
  model_not_found: request(
    404,
    'There is no model %s',
    'GET /v1/models lists the models that this key may use.',
  ),
  route_not_found: request(404, 'There is nothing at %s %s', 'The HTTP reference lists the routes.'),
  outcome_not_found: request(
    404,
    'There is no outcome %s',
    'Use the id from the response header x-consort-outcome; outcomes expire with the store.',
  ),
  response_not_found: request(
    404,
    'There is no response %s',
    'Responses are kept for an hour at most, and not with store: false; send the whole conversation instead.',
  ),
  coalition_invalid: request(
    400,
    'consort.coalition: %s is not a member of pool %s',
    'Name members of the pool only: %s.',
  ),
  capability_missing: request(
    400,
    'Protocol %s needs %s, and model %s is not known to have it',
    'Run `consort check --probe` and put what it finds into models[].capabilities, or leave this model out.',
  ),
  vocabularies_differ: request(
    400,
    'Protocol %s adds up probabilities token by token, and %s do not have one vocabulary',
    'Use models of one tokenizer, or a protocol that works with words.',
  ),
  option_invalid: request(400, 'Option %s of protocol %s: %s', 'See docs/protocols.md for its options.'),
  descriptions_missing: request(
    400,
    'Protocol %s shows what the members are good at, and no model of pool %s has a description',
    'Say in models[].description what each is good at, and leave its name out.',
  ),
  override_forbidden: request(
    403,
    'System %s does not let a request set consort.%s',
    'Leave the field out, or add it to the system’s overrides.',
  ),
  verifier_unknown: request(400, 'There is no verifier %s', 'Use one of: %s.'),
  budget_too_small: request(
    400,
    'The budget allows %s calls, and this plan needs up to %s',
    'Raise budget.calls, or ask for fewer members, rounds or samples.',
  ),
  key_missing: {
    status: 401,
    retryable: false,
    type: 'authentication_error',
    message: 'No API key was sent',
    remedy: 'Send the header "Authorization: Bearer <key>".',
  },
  key_invalid: {
    status: 401,
    retryable: false,
    type: 'authentication_error',
    message: 'The API key is not known',
    remedy: 'Make one with `consort keys new` and put its hash into auth.keys.',
  },
  key_forbidden: {
    status: 403,
    retryable: false,
    type: 'permission_error',
    message: 'The key %s may not %s',
    remedy: 'Use another key, or widen its models or permissions in auth.keys.',
  },
  rate_limited: {
    status: 429,
    retryable: true,
    type: 'rate_limit_error',
    message: 'The key %s has reached its limit (%s)',
    remedy: 'Retry after the time in the header Retry-After, or raise the key’s limits in auth.keys.',
  },
  key_budget_spent: {
    status: 429,
    retryable: false,
    type: 'insufficient_quota',
    message: 'What is left of the %s key’s %s USD a day does not cover this request, which may cost %s USD',
    remedy: 'Ask for less (max_tokens, a smaller coalition), wait until midnight UTC, or raise usdPerDay.',
  },
  client_gone: service(499, false, 'The client left before the answer was complete', 'Nothing to do.'),
  call_not_needed: service(
    499,
    false,
    'The outcome could no longer change, so the call was stopped',
    'Nothing to do; the option earlyExit says how often this may happen.',
  ),
  budget_spent: service(
    402,
    false,
    'The run would go over its budget: %s',
    'Raise the system’s budget, or ask for less.',
  ),
  deadline: service(
    504,
    true,
    'The run did not finish within %s ms',
    'Raise budget.deadlineMs, or ask for less.',
  ),
  upstream_unreachable: service(
    502,
    true,
    'Model %s could not be reached: %s',
    'Check models[].baseUrl and that the server is up.',
  ),
  upstream_stale: service(
    502,
    true,
    'Model %s closed a kept connection as the call went out on it: %s',
    'Retry; if it stays, the server closes idle connections within 4 s: let it keep them longer.',
  ),
  upstream_status: service(502, true, 'Model %s answered HTTP %s: %s', 'See the upstream’s message.'),
  upstream_no_credit: service(
    502,
    false,
    'Model %s has no credit left: %s',
    'Top up the account behind models[].apiKey, or use another key.',
  ),
  circuit_open: service(
    503,
    true,
    'Model %s is not asked for another %s ms: %s',
    'Retry after the time in the header Retry-After; models[].breaker says when a model is left alone.',
  ),
  upstream_timeout: service(
    504,
    true,
    'Model %s sent nothing for %s ms (%s)',
    'Raise models[].timeouts, or retry.',
  ),
  upstream_truncated: service(
    502,
    true,
    'Model %s closed its stream without finishing',
    'Retry; if it stays, look at the upstream’s log.',
  ),
  upstream_malformed: service(
    502,
    true,
    'Model %s sent what is not a chat completion: %s',
    'Check that models[].baseUrl points at an OpenAI-compatible API.',
  ),
  upstream_error: service(
    502,
    true,
    'Model %s reported an error inside its stream: %s',
    'See the upstream’s message.',
  ),
  upstream_empty: service(502, true, 'Model %s gave an empty answer', 'Retry, or raise max_tokens.'),
  members_failed: service(
    502,
    true,
    'No member of %s gave an answer: %s',
    'The reasons are listed a member each; fix or remove these members.',
  ),
  overloaded: service(503, true, '%s', 'Retry after the time in the header Retry-After.'),
  shutting_down: service(503, true, 'The gateway is shutting down', 'Retry on another replica.'),
  ...MERGE_ERRORS,
  ...POLICY_ERRORS,
  store_unavailable: service(503, true, 'The store did not answer: %s', 'Check store.url and that it is up.'),
  internal: service(500, false, 'Something unforeseen went wrong (%s)', 'Report it with the request id.'),
  usage: request(400, '%s', 'Run `consort help` for the commands and flags.'),
  config_invalid: request(400, '%s: %s', '%s'),
  config_unreadable: request(
    400,
    'The config file %s cannot be read: %s',
    'Check the path and its permissions.',
  ),
  file_unreadable: request(400, 'The file %s cannot be read: %s', 'Check the path and its permissions.'),
  tasks_invalid: request(
    400,
    '%s line %s: %s',
    'Task files are JSON lines; docs/evaluation.md shows the fields.',
  ),
  shard_invalid: request(
    400,
    'Training data %s cannot be used: %s',
    'Export it again; a shard is read whole or not at all.',
  ),
  game_invalid: request(
    400,
    'The game is not usable: %s',
    'Give a finite value for every coalition of the players.',
  ),
  port_taken: service(
    500,
    false,
    'Port %s on %s is taken',
    'Stop what listens there, or choose another with --port or --admin-port.',
  ),
  example_unusable: service(
    500,
    false,
    'The tiny team of the examples cannot be used: %s',
    'Run the tour in a checkout of the repository, on a platform that its README names.',
  ),
  redis_missing: service(
    500,
    false,
    'No redis-server was found and none could be installed: %s',
    'Install redis-server (7.0 or later) and put it on the PATH.',
  ),
  ...TRAINER_ERRORS,
} as const satisfies Record<string, Entry>;

export type ErrorCode = keyof typeof CATALOGUE;

/** OpenAI's error envelope. */
export interface ErrorBody {
  error: { message: string; type: string; param: string | null; code: string };
}

/**
 * The one error class. `code` is stable and is what programs should match; the brand makes `ConsortError.is`
 * true over two copies of the package.
 */
export class ConsortError extends Error {
  static readonly #brand = Symbol.for('consort.error');
  override readonly name = 'ConsortError';
  readonly code: ErrorCode;
  readonly status: number;
  readonly retryable: boolean;
  readonly remedy: string;
  /** The field of the request or config that is at fault, as a dotted path. */
  readonly param: string | null;
  /** Milliseconds the other side asked to wait before a retry. */
  readonly retryAfterMs: number | null;

  constructor(
    code: ErrorCode,
    details: readonly unknown[] = [],
    more: {
      param?: string;
      status?: number;
      cause?: unknown;
      retryAfterMs?: number;
      retryable?: boolean;
    } = {},
  ) {
    const entry: Entry = CATALOGUE[code];
    const values = details.map(String);
    const fill = (template: string) => template.replaceAll('%s', () => values.shift() ?? '');
    super(fill(entry.message), more.cause === undefined ? undefined : { cause: more.cause });
    this.code = code;
    this.status = more.status ?? entry.status;
    this.retryable = more.retryable ?? entry.retryable;
    this.remedy = fill(entry.remedy);
    this.param = more.param ?? null;
    this.retryAfterMs = more.retryAfterMs ?? null;
    Object.defineProperty(this, ConsortError.#brand, { value: true });
  }

  static is(value: unknown): value is ConsortError {
    return typeof value === 'object' && value !== null && ConsortError.#brand in value;
  }

  /** Wraps what was thrown: a catalogue error stays, anything else is `internal` with its cause kept. */
  static from(thrown: unknown): ConsortError {
    if (ConsortError.is(thrown)) return thrown;
    return new ConsortError('internal', [thrown instanceof Error ? thrown.name : typeof thrown], {
      cause: thrown,
    });
  }

  toBody(): ErrorBody {
    const { type } = CATALOGUE[this.code];
    const message = `${this.message}. ${this.remedy}`;
    return { error: { message, type, param: this.param, code: this.code } };
  }
}
