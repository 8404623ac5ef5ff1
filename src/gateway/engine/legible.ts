/**
 * Decorator: a member that is known not to read images is not asked about one. It would answer blindly, and nobody could
 * tell its guess from an answer, so it is absent. The call costs nothing.
 */
import type { Call, Send } from '../../contract/call.ts';
import { ConsortError } from '../../contract/errors.ts';

export function hasImage({ messages }: Call): boolean {
  return messages.some(
    ({ content }) => Array.isArray(content) && content.some(({ type }) => type === 'image_url'),
  );
}

export function legible(next: Send): Send {
  return async (exchange) => {
    const { member } = exchange.call;
    if (member.capabilities.images === false && hasImage(exchange.call)) {
      throw new ConsortError('images_unread', [member.alias]);
    }
    return next(exchange);
  };
}
