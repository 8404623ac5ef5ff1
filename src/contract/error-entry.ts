/** One line of the error catalogue, and its two common kinds. */

export interface Entry {
  /** HTTP status on the public port; commands exit with 1 whatever it is. */
  readonly status: number;
  /** Whether the same request may succeed later, unchanged. */
  readonly retryable: boolean;
  /** OpenAI's `error.type`. */
  readonly type:
    | 'invalid_request_error'
    | 'authentication_error'
    | 'permission_error'
    | 'rate_limit_error'
    | 'insufficient_quota'
    | 'api_error';
  /** `%s` stands for the details, in order. */
  readonly message: string;
  readonly remedy: string;
}

export const request = (status: number, message: string, remedy: string): Entry => ({
  status,
  retryable: false,
  type: 'invalid_request_error',
  message,
  remedy,
});
export const service = (status: number, retryable: boolean, message: string, remedy: string): Entry => ({
  status,
  retryable,
  type: 'api_error',
  message,
  remedy,
});
