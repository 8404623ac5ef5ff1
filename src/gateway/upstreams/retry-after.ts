/**
 * How long an upstream asks to be left alone: `Retry-After` (RFC 9110, 10.2.3: seconds or an HTTP date), its finer
 * sibling `retry-after-ms`, and, after a 429, when the limits are reset that it says are used up.
 */

export type Headers = Readonly<Record<string, string | string[] | undefined>>;

/** Nobody is believed who asks for more than a day. */
const LONGEST_MS = 86_400_000;
/** Numbers from here on are points in time: Unix seconds, then Unix milliseconds. */
const UNIX_SECONDS = 1e9;
const UNIX_MS = 1e11;

const UNIT_MS: Readonly<Record<string, number>> = { h: 3_600_000, m: 60_000, s: 1_000, ms: 1 };

/** Milliseconds to wait from `now` (Unix ms), or undefined when the headers say nothing usable. */
export function askedWaitMs(headers: Headers, status: number, now: number): number | undefined {
  const fine = Number(first(headers['retry-after-ms']) ?? NaN);
  return (
    (fine >= 0 ? bounded(fine) : undefined) ??
    waitMs(first(headers['retry-after']), now) ??
    (status === 429 ? resetMs(headers, now) : undefined)
  );
}

/** `x-ratelimit-reset-tokens` and its kin: the latest reset of a limit that is not said to have something left. */
function resetMs(headers: Headers, now: number): number | undefined {
  let latest: number | undefined;
  for (const [name, value] of Object.entries(headers)) {
    if (!/^(?:[a-z]+-)?ratelimit-(?:.+-)?reset(?:-.+)?$/.test(name)) continue;
    if (Number(first(headers[name.replace('reset', 'remaining')]) ?? 0) > 0) continue;
    const ms = waitMs(first(value), now);
    if (ms !== undefined) latest = Math.max(latest ?? 0, ms);
  }
  return latest;
}

function first(header: string | string[] | undefined): string | undefined {
  const value = (Array.isArray(header) ? header[0] : header)?.trim();
  return value === '' ? undefined : value;
}

function bounded(ms: number): number | undefined {
  return Number.isFinite(ms) ? Math.min(LONGEST_MS, Math.max(0, ms)) : undefined;
}

/** A number of seconds, a duration (`6m0s`, `20ms`), a point in Unix time, or a date. */
function waitMs(value: string | undefined, now: number): number | undefined {
  if (value === undefined) return undefined;
  const number = Number(value);
  if (!Number.isNaN(number)) {
    if (number < 0) return undefined;
    if (number >= UNIX_MS) return bounded(number - now);
    return bounded(number >= UNIX_SECONDS ? number * 1000 - now : number * 1000);
  }
  if (/^(?:\d+(?:\.\d+)?(?:ms|[hms]))+$/.test(value)) {
    const pieces = value.matchAll(/(\d+(?:\.\d+)?)(ms|[hms])/g);
    return bounded(
      [...pieces].reduce((sum, [, count, unit = '']) => sum + Number(count) * (UNIT_MS[unit] ?? 0), 0),
    );
  }
  return bounded(Date.parse(value) - now);
}
