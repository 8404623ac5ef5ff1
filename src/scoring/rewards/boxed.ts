/** The LaTeX box, the commonest way to mark an answer. */

const OPENING = /\\(?:boxed|fbox|box)[ \t]{0,8}\{/g;

/**
 * What stands in the last `\boxed{…}` (also `\fbox`, `\box`) with balanced braces; escaped braces do not count.
 * `unbalanced` when the last box never closes, undefined when there is none.
 */
export function lastBox(text: string): { content: string } | 'unbalanced' | undefined {
  let start = -1;
  for (const match of text.matchAll(OPENING)) start = match.index + match[0].length;
  if (start < 0) return undefined;
  let depth = 1;
  for (let index = start; index < text.length; index += 1) {
    const character = text[index];
    if (character === '\\') index += 1;
    else if (character === '{') depth += 1;
    else if (character === '}' && (depth -= 1) === 0) return { content: text.slice(start, index) };
  }
  return 'unbalanced';
}
