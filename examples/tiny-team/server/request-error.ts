/** What a client did wrong, in the envelope of OpenAI's API. */
export class RequestError extends Error {
  readonly status: number;
  readonly code: string;
  readonly param: string | null;

  constructor(status: number, code: string, message: string, param: string | null = null) {
    super(message);
    this.status = status;
    this.code = code;
    this.param = param;
  }

  get envelope(): object {
    const type = this.status < 500 ? 'invalid_request_error' : 'server_error';
    return { error: { message: this.message, type, param: this.param, code: this.code } };
  }
}

export function badField(param: string, value: unknown, expected: string): RequestError {
  const shown = JSON.stringify(value)?.slice(0, 80) ?? 'nothing';
  return new RequestError(400, 'invalid_value', `${param} is ${shown}; expected ${expected}`, param);
}

/** The files at `lora_path` are no adapter that this server can serve. */
export function badAdapter(message: string): RequestError {
  return new RequestError(400, 'invalid_adapter', message, 'lora_path');
}
