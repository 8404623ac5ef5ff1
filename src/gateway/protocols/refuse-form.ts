/** What cannot be honoured where words are chosen outside of the members, or written by several of them. */
import { ConsortError } from '../../contract/errors.ts';
import type { Task } from '../../contract/task.ts';

/** @throws `not_supported`, before any call */
export function refuseForm({ responseFormat, sampling }: Task, protocol: string): void {
  const { presence_penalty, frequency_penalty } = sampling;
  for (const [field, value] of Object.entries({
    response_format: responseFormat,
    presence_penalty: presence_penalty || undefined,
    frequency_penalty: frequency_penalty || undefined,
  })) {
    if (value === undefined) continue;
    const what = [field, JSON.stringify(value), `protocol ${protocol}`];
    throw new ConsortError('not_supported', what, { param: field });
  }
}
