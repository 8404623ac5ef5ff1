/** One spelling for characters that look alike, so that later readers need to know ASCII only. */

const INVISIBLE = /[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]/g;
const SPACE = /[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]/g;
const MINUS = /[\u2010-\u2013\u2212\ufe63\uff0d]/g;
const TIMES = /[\u00d7\u22c5\u00b7]/g;
const SUPERSCRIPTS = /[\u2070\u00b9\u00b2\u00b3\u2074-\u207b\u207f]+/g;
const VULGAR = /(\d?)([\u00bc-\u00be\u2150-\u215e\u2189])/g;

/**
 * Drops invisible characters; makes every space, minus and times sign the ASCII one; writes superscripts as `^{…}` and
 * vulgar fractions as `a/b`, both before NFKC, which would turn 10⁶ into 106 and 1½ into 11/2.
 */
export function cleanUnicode(text: string): string {
  return text
    .replace(INVISIBLE, '')
    .replace(SPACE, ' ')
    .replace(MINUS, '-')
    .replace(TIMES, '*')
    .replaceAll('\u00f7', '/')
    .replace(SUPERSCRIPTS, (run) => `^{${run.normalize('NFKC').replaceAll('\u2212', '-')}}`)
    .replace(VULGAR, (_, digit: string, fraction: string) => {
      const spelled = fraction.normalize('NFKC').replace('\u2044', '/');
      return digit === '' ? spelled : `${digit} ${spelled}`;
    })
    .normalize('NFKC')
    .replaceAll('\u2044', '/')
    .replace(/\r\n?/g, '\n');
}
