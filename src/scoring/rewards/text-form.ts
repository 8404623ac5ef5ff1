/** One form for answers that are words: case, spaces, quotes, final punctuation and one leading article aside. */
import { cleanUnicode } from './unicode.ts';

const QUOTES = /^["'`\u2018\u2019\u201c\u201d\u00ab\u00bb]+|["'`\u2018\u2019\u201c\u201d\u00ab\u00bb]+$/g;
/** An exclamation mark after a number may be a factorial. */
const FINAL_PUNCTUATION = /(?:[.,;:?]|(?<![\d)!])!+)+$/;

/** Case-folded text with single spaces, without quotes around it and punctuation at its end; never emptied by that. */
export function foldText(text: string): string {
  let folded = cleanUnicode(text).toLowerCase().replaceAll('\u00df', 'ss').replaceAll('\u03c2', '\u03c3');
  folded = folded.replace(/\s+/g, ' ').trim();
  for (;;) {
    const shorter = folded.replace(FINAL_PUNCTUATION, '').replace(QUOTES, '').trim();
    if (shorter === '' || shorter === folded) return folded;
    folded = shorter;
  }
}

/** `foldText` less one leading article, unless that would leave nothing. */
export function withoutArticle(folded: string): string {
  return folded.replace(/^(?:the|an|a) (?=\S)/, '');
}
