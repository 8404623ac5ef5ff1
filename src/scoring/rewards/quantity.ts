/**
 * Reads one quantity: an exact number with its percent sign, currency, unit or counted noun. All of the text must be
 * read: a second number, an "or", a range or a relation makes it no quantity, so hedges never match.
 */
import { plainMath } from './latex.ts';
import { readNumber, type DecimalMark } from './number-grammar.ts';
import { divide, multiply, negate, rational, type Rational } from './rational.ts';
import { parseUnit } from './unit-grammar.ts';
import type { Unit } from './unit-table.ts';

export interface Quantity {
  /** As written: 50 for "50%", 5 for "5 km". */
  readonly number: Rational;
  readonly percent: boolean;
  readonly currency?: string;
  readonly unit?: Unit;
  /** Words after the number that are no unit: what was counted. */
  readonly noun?: string;
}

const APPROXIMATELY = /^(?:about|approximately|approx\.?|around|roughly|nearly|exactly|[~\u2248])\s*/i;
const ASSIGNED = /^\\?[A-Za-z][A-Za-z0-9_\\{}']{0,30}(?: ?\([A-Za-z0-9, ]{0,20}\))? ?[=\u2248] ?/;
const CURRENCY = /^(?:US ?\$|[$\u20ac\u00a3\u00a5\u20b9]|(?:USD|EUR|GBP|JPY|INR)\b)\s*/;
const MONEY_WORD = /^(?:([$\u20ac\u00a3\u00a5\u20b9])|(USD|EUR|GBP|JPY|INR|dollars?|euros?|cents?)\b)\s*/i;
const MONEY: Readonly<Record<string, string>> = {
  usd: '$',
  us$: '$',
  'us $': '$',
  dollar: '$',
  dollars: '$',
  cent: '$',
  cents: '$',
  eur: '\u20ac',
  euro: '\u20ac',
  euros: '\u20ac',
  gbp: '\u00a3',
  jpy: '\u00a5',
  inr: '\u20b9',
};
const MULTIPLES: Readonly<Record<string, bigint>> = {
  dozen: 12n,
  hundred: 100n,
  thousand: 1_000n,
  million: 1_000_000n,
  billion: 1_000_000_000n,
  trillion: 1_000_000_000_000n,
};
const MULTIPLE = /^ ?(dozen|hundred|thousand|million|billion|trillion)\b/i;
const PERCENT = /^ ?(?:%|percent\b|per ?cent\b|percentage points?\b)/i;
const NOUN = /^ (?:(?:of|in|at|on|as) )?\p{L}{3}[\p{L}'-]*(?: [\p{L}'-]+){0,8}(?: ?\([\p{L} ,'-]{0,60}\))?$/u;
const NOTE = /^ ?\([\p{L} ,'-]{0,60}\)$/u;
/** Words that make a second statement or an operation of what follows the number. */
const NO_NOUN =
  /\b(?:or|and|to|between|but|not|nor|either|maybe|perhaps|tau|sqrt|root|squared|cubed|factorial|times|plus|minus|mod|modulo|infinity|half|halves|thirds?|quarters?|fourths?|fifths?|negative|power|log|sin|cos|tan|exp|dozen|hundred|thousand|million|billion|trillion)\b/i;

/** The quantity that the whole of `text` states, or undefined. */
export function parseQuantity(text: string, mark: DecimalMark = 'point'): Quantity | undefined {
  const signed = readSign(withoutLead(plainMath(text)));
  const read = readNumber(signed.rest, mark);
  if (read === undefined) return undefined;
  const multiple = MULTIPLE.exec(read.rest);
  const factor = multiple === null ? 1n : (MULTIPLES[(multiple[1] ?? '').toLowerCase()] ?? 1n);
  const magnitude = multiply(read.value, rational(factor));
  const number = signed.negative ? negate(magnitude) : magnitude;
  const rest = read.rest.slice(multiple?.[0].length ?? 0).replace(/ ?[.,;:?]+$/, '');
  return readSuffix(number, rest, signed.currency);
}

function withoutLead(text: string): string {
  let rest = text;
  for (;;) {
    const shorter = rest
      .replace(/^\{(.*)\}$/, '$1')
      .replace(APPROXIMATELY, '')
      .replace(ASSIGNED, '')
      .trim();
    if (shorter === rest) return rest;
    rest = shorter;
  }
}

function readSign(text: string): { negative: boolean; currency: string | undefined; rest: string } {
  const before = /^([-+]) ?/.exec(text);
  let rest = text.slice(before?.[0].length ?? 0);
  const money = CURRENCY.exec(rest);
  rest = rest.slice(money?.[0].length ?? 0);
  const after = before === null && money !== null ? /^([-+]) ?/.exec(rest) : null;
  rest = rest.slice(after?.[0].length ?? 0);
  const currency = money === null ? undefined : currencyNamed(money[0]);
  return { negative: (before?.[1] ?? after?.[1]) === '-', currency, rest };
}

function currencyNamed(name: string): string {
  const key = name.trim().toLowerCase();
  return MONEY[key] ?? key;
}

function readSuffix(number: Rational, text: string, prefix: string | undefined): Quantity | undefined {
  const percent = PERCENT.exec(text);
  let rest = text.slice(percent?.[0].length ?? 0);
  const money = percent === null ? MONEY_WORD.exec(rest.trimStart()) : null;
  if (money !== null) rest = rest.trimStart().slice(money[0].length);
  const suffix = money === null ? undefined : currencyNamed(money[0]);
  if (prefix !== undefined && suffix !== undefined && prefix !== suffix) return undefined;
  const inCents = money !== null && /^cents?/i.test(money[0]);
  const currency = prefix ?? suffix;
  const quantity = {
    number: inCents ? divide(number, rational(100n)) : number,
    percent: percent !== null,
    ...(currency === undefined ? {} : { currency }),
  };
  if (rest.trim() === '' || NOTE.test(rest)) return quantity;
  if (percent !== null || currency !== undefined) {
    const noun = counted(` ${rest.trim()}`);
    return noun === undefined ? undefined : { ...quantity, noun };
  }
  return readUnit(quantity, rest);
}

/** The longest run of words that is a unit, then a counted noun ("5 m of rope"); or the noun alone. */
function readUnit(quantity: Quantity, rest: string): Quantity | undefined {
  const words = rest.trim().split(' ');
  if (words.length > 12) return undefined;
  for (let length = words.length; length > 0; length -= 1) {
    const unit = parseUnit(words.slice(0, length).join(' '));
    if (unit === undefined) continue;
    if (length === words.length) return { ...quantity, unit };
    const noun = counted(` ${words.slice(length).join(' ')}`);
    return noun === undefined ? undefined : { ...quantity, unit, noun };
  }
  const noun = counted(rest);
  return noun === undefined ? undefined : { ...quantity, noun };
}

function counted(rest: string): string | undefined {
  return NOUN.test(rest) && !NO_NOUN.test(rest) ? rest.trim() : undefined;
}
