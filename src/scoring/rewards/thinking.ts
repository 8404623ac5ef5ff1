/** Reasoning blocks are no answers, whatever they say. */

const TAG = /<(\/?)(?:think|thinking|reasoning)\s{0,8}>/gi;

/**
 * The text outside `<think>…</think>` blocks (also `thinking`, `reasoning`). A closing tag without an opening one ends
 * a block that the chat template opened, so all before it is dropped. Undefined when a block never ends: whatever is
 * in it was not yet an answer.
 */
export function withoutThinking(text: string): string | undefined {
  let kept = '';
  let from = 0;
  let inside = false;
  for (const tag of text.matchAll(TAG)) {
    const closing = tag[1] === '/';
    if (!closing && !inside) {
      kept += text.slice(from, tag.index);
      inside = true;
    } else if (closing) {
      kept = inside ? `${kept}\n` : '';
      inside = false;
      from = tag.index + tag[0].length;
    }
  }
  return inside ? undefined : kept + text.slice(from);
}
