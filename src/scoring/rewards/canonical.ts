/** A form in which answers can be compared and counted as votes. */
import { unwrapAnswer } from './markup.ts';
import { parseQuantity, type Quantity } from './quantity.ts';
import { add, formatRational, multiply, rational } from './rational.ts';
import { foldText, withoutArticle } from './text-form.ts';
import { cleanUnicode } from './unicode.ts';
import { formatDimensions } from './unit-grammar.ts';

const LONGEST = 4_096;
const LETTER = /^[([]? ?(\p{L}) ?[)\]]$/u;

/**
 * The canonical form of an answer: numbers as reduced fractions in SI units ("5", "5.", "$5$" and "5.0" agree; "50%"
 * is 1/2; a dollar sign is dropped), an option letter without its brackets, other text case-folded without a leading
 * article. Different numbers, signs, units or counted nouns stay different. Idempotent on its results.
 */
export function canonical(answer: string): string {
  const plain = unwrapAnswer(cleanUnicode(answer));
  const quantity = plain.length > LONGEST ? undefined : parseQuantity(plain);
  if (quantity !== undefined) return formatQuantity(quantity);
  const folded = foldText(plain);
  return LETTER.exec(folded)?.[1] ?? withoutArticle(folded);
}

function formatQuantity({ number, percent, currency, unit, noun }: Quantity): string {
  let value = percent ? multiply(number, rational(1n, 100n)) : number;
  if (unit !== undefined) value = add(multiply(value, unit.scale), unit.offset);
  const parts = [formatRational(value)];
  if (currency !== undefined && currency !== '$') parts.push(currency);
  if (unit !== undefined) parts.push(formatDimensions(unit.dimensions));
  if (noun !== undefined) parts.push(foldText(noun));
  return parts.join(' ');
}
