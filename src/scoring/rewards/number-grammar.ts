/**
 * Reads one number, exactly: digits grouped in threes, a decimal point, `a/b` and `\frac{a}{b}`, mixed numbers and
 * powers of ten as a scale. No operators: `10^6` alone, `2*3` and `sqrt(2)` are not numbers here.
 */
import { add, divide, multiply, negate, power, rational, type Rational } from './rational.ts';

export type DecimalMark = 'point' | 'comma';

/** A number at the start of a text and what follows it. */
export interface ReadNumber {
  readonly value: Rational;
  readonly rest: string;
}

const LARGEST_EXPONENT = 10_000;
const DECIMAL: Record<DecimalMark, RegExp> = {
  point: /^(?:[1-9]\d{0,2}(?:,\d{3})+(?!\d)|[1-9]\d{0,2}(?: \d{3})+(?![\d/])|\d+)(?:\.\d*)?|^\.\d+/,
  comma: /^(?:[1-9]\d{0,2}(?:\.\d{3})+(?!\d)|[1-9]\d{0,2}(?: \d{3})+(?![\d/])|\d+)(?:,\d*)?|^,\d+/,
};
const SCALE =
  /^(?:[eE]([-+]?\d{1,9})|[ ]?(?:\*|x|\\times|\\cdot)[ ]?10[ ]?(?:\^|\*\*)[ ]?(?:\{ ?([-+]?\d{1,9}) ?\}|([-+]?\d{1,9})))(?!\d)/;
const FRACTION = /^\\frac ?(?:\{([^{}]*)\} ?\{([^{}]*)\}|(\d)(\d))/;

/** The unsigned number that `text` starts with, the longest reading first; undefined when there is none. */
export function readNumber(text: string, mark: DecimalMark): ReadNumber | undefined {
  const fraction = readFraction(text, mark);
  if (fraction !== undefined) return fraction;
  const first = readDecimal(text, mark);
  if (first === undefined) return undefined;
  const mixed = readMixed(first, text, mark);
  if (mixed !== undefined) return mixed;
  const scaled = readScale(first);
  if (scaled === undefined) return undefined;
  return readQuotient(scaled, mark) ?? scaled;
}

/** The number that the whole of `text` is, with an optional sign; undefined when it is anything else. */
export function parseNumber(text: string, mark: DecimalMark = 'point'): Rational | undefined {
  const signed = /^([-+]?) ?(.*)$/s.exec(text.trim());
  const read = readNumber(signed?.[2] ?? '', mark);
  if (read === undefined || read.rest.trim() !== '') return undefined;
  return signed?.[1] === '-' ? negate(read.value) : read.value;
}

function readDecimal(text: string, mark: DecimalMark): ReadNumber | undefined {
  const digits = DECIMAL[mark].exec(text)?.[0];
  if (digits === undefined) return undefined;
  const point = mark === 'point' ? '.' : ',';
  const [whole = '', decimals = ''] = digits.split(point);
  const integer = BigInt(whole.replace(/[ ,.]/g, '') + decimals || '0');
  return { value: rational(integer, 10n ** BigInt(decimals.length)), rest: text.slice(digits.length) };
}

function readScale(read: ReadNumber): ReadNumber | undefined {
  const match = SCALE.exec(read.rest);
  if (match === null) return read;
  const exponent = Number(match[1] ?? match[2] ?? match[3]);
  if (Math.abs(exponent) > LARGEST_EXPONENT) return undefined;
  const value = multiply(read.value, power(rational(10n), exponent));
  return { value, rest: read.rest.slice(match[0].length) };
}

function readFraction(text: string, mark: DecimalMark): ReadNumber | undefined {
  const match = FRACTION.exec(text);
  if (match === null) return undefined;
  const [above, below] = [
    parseNumber(match[1] ?? match[3] ?? '', mark),
    parseNumber(match[2] ?? match[4] ?? '', mark),
  ];
  if (above === undefined || below === undefined || below.numerator === 0n) return undefined;
  return { value: divide(above, below), rest: text.slice(match[0].length) };
}

/** `1 1/2`, `1\frac{1}{2}`: a whole number and a non-negative fraction. */
function readMixed(whole: ReadNumber, text: string, mark: DecimalMark): ReadNumber | undefined {
  const digits = text.slice(0, text.length - whole.rest.length);
  if (!/^\d+$/.test(digits)) return undefined;
  const plain = /^ (\d+)\/(\d+)(?![\d/.,])/.exec(whole.rest);
  if (plain !== null && BigInt(plain[2] ?? '0') !== 0n) {
    const part = rational(BigInt(plain[1] ?? '0'), BigInt(plain[2] ?? '1'));
    return { value: add(whole.value, part), rest: whole.rest.slice(plain[0].length) };
  }
  const part = readFraction(whole.rest.trimStart(), mark);
  if (part === undefined || part.value.numerator < 0n) return undefined;
  return { value: add(whole.value, part.value), rest: part.rest };
}

function readQuotient(above: ReadNumber, mark: DecimalMark): ReadNumber | undefined {
  const slash = /^ ?\/ ?(?=[\d.,])/.exec(above.rest);
  if (slash === null) return undefined;
  const below = readDecimal(above.rest.slice(slash[0].length), mark);
  if (below === undefined || below.value.numerator === 0n) return undefined;
  return { value: divide(above.value, below.value), rest: below.rest };
}
