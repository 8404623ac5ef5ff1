/**
 * Equality of numbers, exactly: both sides are read as fractions of any size, so 2^53 + 1 is not 2^53 and 1e400 is
 * finite. Percent signs, currencies and units are read too, and converted where they fit. Anything that is not one
 * number (a range, a hedge, an operation, NaN) scores 0. Gold: a number or a list of alternatives.
 */
import Type, { type Static } from 'typebox';
import { readableText, type ExtractedAnswer, type NoAnswer } from './extract.ts';
import { parseNumber, type DecimalMark } from './number-grammar.ts';
import { graded, graderError, noAnswer, pureVerifier, unparseable } from './pure-verifier.ts';
import { parseQuantity, type Quantity } from './quantity.ts';
import { absolute, add, compare, divide, multiply, negate, rational, type Rational } from './rational.ts';
import { sameDimensions } from './unit-grammar.ts';
import { unwrapAnswer } from './markup.ts';
import { cleanUnicode } from './unicode.ts';

const Params = Type.Object(
  {
    /** Largest accepted |answer - gold| / |gold|. Default 1e-9; 0 between two whole numbers. */
    rel_tol: Type.Optional(Type.Number({ minimum: 0 })),
    /** Largest accepted |answer - gold|, in the gold's unit. */
    abs_tol: Type.Optional(Type.Number({ minimum: 0 })),
    /** Language tag; decides whether `,` or `.` is the decimal mark of answers. The gold is read in it too. */
    locale: Type.Optional(Type.String()),
    /** `strict`: 50% is 0.5. `lenient`: it may also be written 50, for questions that ask "what percent". */
    percent: Type.Optional(Type.Union([Type.Literal('strict'), Type.Literal('lenient')])),
    /** Whether the gold's unit must be written; `optional` reads a bare number in the gold's unit. */
    unit_policy: Type.Optional(Type.Union([Type.Literal('optional'), Type.Literal('required')])),
    /** Whether the last number of a response that states no answer is taken for one. */
    fallback_last_number: Type.Optional(Type.Boolean()),
  },
  { additionalProperties: false },
);
type Params = Static<typeof Params>;

const DEFAULT_RELATIVE = rational(1n, 1_000_000_000n);
const ZERO = rational(0n);
const HUNDRED = rational(100n);
const COMMA_LOCALES =
  /^(?:de|fr|es|it|pt|nl|pl|cs|sk|sv|da|nb|nn|no|fi|ru|uk|tr|el|hu|ro|bg|hr|sl|id|vi)(?:-|_|$)/i;
const NUMBERS =
  /(?<![\p{L}\d.,/])[-+]?[$\u20ac\u00a3]?(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d{1,5}(?!\d))?(?:\/\d+)?%?/gu;

export const numeric = pureVerifier({
  id: 'numeric',
  version: '1',
  params: Params,
  judge: ({ completion, found, golds, params }) => {
    const mark: DecimalMark = COMMA_LOCALES.test(params.locale ?? '') ? 'comma' : 'point';
    const wanted = golds.map((gold) => readGold(gold, mark));
    const usable = wanted.filter((gold) => gold !== undefined);
    if (usable.length < wanted.length) return graderError('gold', `${golds.join(', ')} is no number`);
    const stated = withFallback(found, completion, params, mark);
    if (typeof stated === 'string') return noAnswer(stated);
    const answer = parseQuantity(stated.answer, mark);
    if (answer === undefined) return unparseable(stated);
    return graded(
      usable.some((gold) => matches(answer, gold, params)),
      stated,
    );
  },
});

/** A gold is read plainly where its locale allows, so that machine-written golds ("3.14") work in every locale. */
function readGold(gold: string, mark: DecimalMark): Quantity | undefined {
  const plain = unwrapAnswer(cleanUnicode(gold));
  return parseQuantity(plain, mark) ?? (mark === 'comma' ? parseQuantity(plain) : undefined);
}

function withFallback(
  found: ExtractedAnswer | NoAnswer,
  completion: string,
  params: Params,
  mark: DecimalMark,
): ExtractedAnswer | NoAnswer {
  if (params.fallback_last_number !== true) return found;
  const open = found === 'unstated' || (typeof found !== 'string' && found.source === 'whole');
  if (!open || (typeof found !== 'string' && parseQuantity(found.answer, mark) !== undefined)) return found;
  return lastNumber(readableText(completion) ?? '') ?? found;
}

function lastNumber(text: string): ExtractedAnswer | undefined {
  const last = [...text.matchAll(NUMBERS)].at(-1)?.[0];
  return last === undefined ? undefined : { answer: last.replace(/,+$/, ''), source: 'last-number' };
}

function matches(answer: Quantity, gold: Quantity, params: Params): boolean {
  if (params.unit_policy === 'required' && (lacks(answer, gold, 'unit') || lacks(answer, gold, 'currency')))
    return false;
  const value = inUnitOf(answer, gold);
  if (value === undefined) return false;
  const target = gold.percent ? divide(gold.number, HUNDRED) : gold.number;
  if (isClose(value, target, params)) return true;
  const lenient = params.percent === 'lenient' && answer.percent !== gold.percent;
  return lenient && isClose(answer.number, gold.number, params);
}

function lacks(answer: Quantity, gold: Quantity, part: 'unit' | 'currency'): boolean {
  return gold[part] !== undefined && answer[part] === undefined;
}

/** The answer's number in the unit of the gold; undefined when the two measure different things. */
function inUnitOf(answer: Quantity, gold: Quantity): Rational | undefined {
  const plain = answer.percent ? divide(answer.number, HUNDRED) : answer.number;
  if (gold.unit !== undefined) {
    if (answer.unit === undefined) {
      const foreign = answer.percent || answer.currency !== undefined || answer.noun !== undefined;
      return foreign ? undefined : plain;
    }
    if (!sameDimensions(answer.unit.dimensions, gold.unit.dimensions)) return undefined;
    const base = add(multiply(answer.number, answer.unit.scale), answer.unit.offset);
    return divide(add(base, negate(gold.unit.offset)), gold.unit.scale);
  }
  const otherMoney =
    gold.currency !== undefined && answer.currency !== undefined && gold.currency !== answer.currency;
  const measured = answer.unit !== undefined && (gold.currency !== undefined || gold.percent);
  return otherMoney || measured ? undefined : plain;
}

function isClose(value: Rational, target: Rational, { rel_tol, abs_tol }: Params): boolean {
  const difference = absolute(add(value, negate(target)));
  const exact = rel_tol === undefined && abs_tol === undefined && isWhole(value) && isWhole(target);
  const relative = exact ? ZERO : (tolerance(rel_tol) ?? DEFAULT_RELATIVE);
  const allowed = multiply(relative, absolute(target));
  const least = tolerance(abs_tol) ?? ZERO;
  return compare(difference, compare(allowed, least) > 0 ? allowed : least) <= 0;
}

function isWhole({ denominator }: Rational): boolean {
  return denominator === 1n;
}

/** A tolerance as the decimal that was written, not as its nearest double. */
function tolerance(value: number | undefined): Rational | undefined {
  return value === undefined ? undefined : parseNumber(String(value));
}
