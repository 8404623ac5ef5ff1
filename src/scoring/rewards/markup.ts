/** Wrappers around a whole answer that are no part of it. */

const EMPHASIS = /(?<![\w)*])\*\*|\*\*(?![\w(*])|(?<!\S)\*(?=[^\s*])|(?<=[^\s*])\*(?!\S)|`/g;
const LEAD =
  /^(?:so |therefore,? |thus,? |hence,? )?(?:the )?(?:(?:final|correct) )?answer ?(?:is ?[:=]?|[:=]) ?/i;
const WRAPPERS: readonly RegExp[] = [
  /^\$\$([^$]+)\$\$[.,;:]?$/,
  /^\$([^$]+)\$[.,;:]?$/,
  /^\\\(([^]+)\\\)[.,;:]?$/,
  /^\\\[([^]+)\\\][.,;:]?$/,
  /^\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathit|mbox|boxed|emph)[ ]?\{([^{}]*)\}[.,;:]?$/,
];
const DEEPEST = 8;

/** `text` without Markdown emphasis and code marks; `2**3` and `3 * 4` stay. */
export function withoutEmphasis(text: string): string {
  return text.replace(EMPHASIS, '');
}

/** An answer without emphasis, a repeated "the answer is", math delimiters and `\text{…}` around all of it. */
export function unwrapAnswer(raw: string): string {
  let answer = withoutEmphasis(raw).trim().replace(LEAD, '').trim();
  for (let depth = 0; depth < DEEPEST; depth += 1) {
    const before = answer;
    for (const wrapper of WRAPPERS) answer = (wrapper.exec(answer)?.[1] ?? answer).trim();
    if (answer === before) break;
  }
  return answer;
}
