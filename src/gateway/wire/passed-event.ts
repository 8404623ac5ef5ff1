/** A plain model's own events: each goes on once, as it came. */
import type { Part } from '../../contract/part.ts';

/** The event to pass on, if this part ends one; the usage event is the client's only if it asked. */
export function passedEvent({ type, raw }: Part, includeUsage: boolean): string | undefined {
  if (raw === undefined || includeUsage || !raw.includes('"usage"')) return raw;
  if (type === 'usage' && /"choices":\s*\[\s*\]/.test(raw)) return undefined;
  // We asked the upstream for the usage, so a `null` in each chunk is our doing and is taken out again.
  return raw.replace(/,\s*"usage":\s*null/, '');
}
