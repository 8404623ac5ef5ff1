/** Answers that are announced in words ("the answer is …") or by GSM8K's `#### …`. */

const ANNOUNCED =
  /\b(?:answers?|solutions?|(?:correct|right|best|final) +(?:option|choice|result))(?: ?\([^()\n]{0,40}\))?(?: (?:to|of|for|here) ?[^\n.:=!?]{0,80}?)?[ \t]{0,3}(?:\b(?:is|are)\b[ \t]{0,3}[:=]?|[:=])/gi;
const HEADING = /^[ \t#>]{0,12}(?:the )?final answer[ \t]{0,8}$/gim;
const HASH = /^[ \t]{0,8}####[ \t]{0,8}([^#\n][^\n]*)$/gm;
const NUMBERED = /^\d{1,3}[.)] /;
const SENTENCE_END = /[.!?](?=\s)/g;
const ABBREVIATION =
  /(?:^|[\s.(])(?:\p{L}|st|mr|mrs|ms|dr|jr|sr|mt|ft|no|vs|approx|prof|gen|col|rev|e\.g|i\.e)$/iu;
const REASON = /,? (?:because|since)\b/i;

/**
 * What follows the last announcement, up to the end of its sentence or line; the next line when the announcement ends
 * its own. The empty string when nothing follows (a cut-off text); undefined when nothing is announced.
 * `text` must be free of emphasis.
 */
export function lastAnnounced(text: string): string | undefined {
  let end = -1;
  for (const pattern of [ANNOUNCED, HEADING]) {
    let last: RegExpExecArray | undefined;
    for (const match of text.matchAll(pattern)) last = match;
    if (last !== undefined) end = Math.max(end, last.index + last[0].length);
  }
  return end < 0 ? undefined : firstStatement(text.slice(end));
}

/** What follows the last `####` at the start of a line. A Markdown heading with text below it is none. */
export function lastHash(text: string): string | undefined {
  let found: string | undefined;
  for (const match of text.matchAll(HASH)) {
    const content = (match[1] ?? '').trim();
    const isLast = text.slice(match.index + match[0].length).trim() === '';
    const isNumber = /^[-+$(\\.\d]/.test(content) && !NUMBERED.test(content);
    if (isLast || isNumber) found = content;
  }
  return found;
}

function firstStatement(rest: string): string {
  const text = rest.trimStart();
  const display = /^(?:\$\$|\\\[)/.exec(text);
  if (display !== null) {
    const close = text.indexOf(display[0] === '$$' ? '$$' : '\\]', 2);
    if (close > 0) return text.slice(2, close).trim();
  }
  const newline = text.indexOf('\n');
  return firstSentence(newline < 0 ? text : text.slice(0, newline));
}

function firstSentence(line: string): string {
  let end = line.length;
  for (const match of line.matchAll(SENTENCE_END)) {
    if (match[0] === '.' && ABBREVIATION.test(line.slice(Math.max(0, match.index - 12), match.index)))
      continue;
    end = match.index + 1;
    break;
  }
  const sentence = line.slice(0, end);
  const reason = REASON.exec(sentence)?.index ?? sentence.length;
  return sentence.slice(0, reason).trim();
}
