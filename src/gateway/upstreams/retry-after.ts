/** The header Retry-After (RFC 9110, 10.2.3): seconds, or an HTTP date. */

/** Milliseconds to wait from `now` (Unix ms), or undefined when the header says nothing usable. */
export function retryAfterMs(header: string | string[] | undefined, now: number): number | undefined {
  const value = Array.isArray(header) ? header[0] : header;
  if (!value) return undefined;
  const seconds = Number(value);
  if (Number.isFinite(seconds)) return seconds < 0 ? undefined : seconds * 1000;
  const date = Date.parse(value);
  return Number.isNaN(date) ? undefined : Math.max(0, date - now);
}
