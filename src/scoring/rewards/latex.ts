/** The LaTeX that surrounds numbers, rewritten as plain text; `\frac` stays for the number grammar. */

const TEXT = /\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathit|mbox|operatorname|unit|si) ?\{([^{}]*)\}/g;
const REWRITES: readonly (readonly [RegExp, string])[] = [
  [/\{,\}/g, ','],
  [/\\(?:left|right|displaystyle|limits)(?![A-Za-z])/g, ''],
  [/\\[,;:! ]|~|\\quad(?![A-Za-z])/g, ' '],
  [/\\([dtc])frac/g, '\\frac'],
  [/\^ ?\{? ?\\circ ?\}?|\\degree(?![A-Za-z])/g, '\u00b0'],
  [/\\(?:times|cdot)(?![A-Za-z])/g, '*'],
  [/\\(?:approx|sim|simeq)(?![A-Za-z])/g, '\u2248'],
  [/\\mu(?![A-Za-z])/g, '\u03bc'],
  [/\\Omega(?![A-Za-z])/g, '\u03a9'],
  [/\\([%$#&])/g, '$1'],
];

/** `text` with spacing, text blocks, escapes and unit symbols written plainly, and single spaces. */
export function plainMath(text: string): string {
  let plain = text.replace(TEXT, ' $1 ');
  for (const [pattern, replacement] of REWRITES) plain = plain.replace(pattern, replacement);
  return plain.replace(/\s+/g, ' ').trim();
}
