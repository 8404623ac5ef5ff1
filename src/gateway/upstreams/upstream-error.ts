/** What an upstream's own words about a failure come to, for our error: short, in plain text, without its key. */
import { ConsortError } from '../../contract/errors.ts';

/** Characters of an upstream's message that are passed on. */
const LONGEST = 500;

/** The text of an `error` field, whatever its shape, with its code where it has one. */
export function errorText(error: unknown): string {
  if (typeof error === 'string') return error.slice(0, LONGEST);
  if (typeof error !== 'object' || error === null || !('message' in error)) {
    return JSON.stringify(error ?? null).slice(0, LONGEST);
  }
  const name = [fieldOf(error, 'code'), fieldOf(error, 'type')].find((value) => value !== '') ?? '';
  return `${fieldOf(error, 'message').slice(0, LONGEST)}${name && ` (${name.slice(0, 100)})`}`;
}

function fieldOf(object: object, name: string): string {
  const value: unknown = Object.entries(object).find(([key]) => key === name)?.[1];
  if (typeof value === 'string' || typeof value === 'number') return String(value);
  return value === undefined || value === null ? '' : JSON.stringify(value);
}

/** The message in the body of a failed response: JSON of any shape, a page for a browser, or text. */
export function bodyText(body: string): string {
  let parsed: unknown;
  try {
    parsed = JSON.parse(body);
  } catch {
    const title = /<title[^>]*>([^<]*)/i.exec(body)?.[1]?.trim();
    if (title !== undefined || /^\s*<(?:!doctype|html)/i.test(body))
      return `an HTML page: ${title || 'untitled'}`;
    return body.trim().slice(0, LONGEST);
  }
  return errorText(
    typeof parsed === 'object' && parsed !== null && 'error' in parsed ? parsed.error : parsed,
  );
}

/** What providers call an account that has run dry, in `code` or `type`. */
const NO_CREDIT =
  /^(?:insufficient_(?:quota|credits?|balance|funds)|billing_(?:hard_limit_reached|not_active|error)|payment_required|credit_exhausted)$/i;
/** And one that says it in words only. At the start: a message may quote the request later on. */
const CREDIT_WORDS = /^(?:your credit balance is too low|insufficient (?:credits?|balance|funds))/i;

/** Whether a failed response says that there is no money. Nothing that a client wrote may look like it. */
export function isOutOfCredit(status: number, body: string): boolean {
  if (status === 402) return true;
  if (![400, 403, 429].includes(status)) return false;
  let error: unknown;
  try {
    error = JSON.parse(body);
  } catch {
    return false;
  }
  if (typeof error === 'object' && error !== null && 'error' in error) error = error.error;
  if (typeof error !== 'object' || error === null) return false;
  const named = ['code', 'type'].some((field) => NO_CREDIT.test(fieldOf(error, field)));
  return named || CREDIT_WORDS.test(fieldOf(error, 'message'));
}

/**
 * What an upstream's status means for us: 408, 409, 425, 429 and 5xx may pass; a 4xx that blames the request keeps
 * its status; one that blames our key or the address is ours to answer for.
 */
export function statusError(
  alias: string,
  status: number,
  message: string,
  waitMs: number | undefined,
): ConsortError {
  const retryable = status >= 500 || [408, 409, 425, 429].includes(status);
  const blamesRequest =
    status >= 400 && status < 500 && ![401, 402, 403, 407, 408, 409, 425].includes(status);
  return new ConsortError('upstream_status', [alias, status, message], {
    status: blamesRequest ? status : 502,
    retryable,
    ...(waitMs !== undefined && { retryAfterMs: waitMs }),
  });
}
