/** Reads option labels out of an answer: `B`, `(B)`, `B) text`, the full text of one option, or a list of labels. */
import { foldText } from './text-form.ts';

/** Options by label; labels are compared in upper case. */
export type Options = ReadonlyMap<string, string>;

const WRAPPED = /^[([{]? ?([\p{L}\d]{1,4}) ?[)\]}]?[.,:;]?$/u;
const LABELLED = /^(?:[([] ?([\p{L}\d]{1,4}) ?[)\]][.:]?|([\p{L}\d]{1,4}) ?(?:[).:]|-(?= )))\s*(\S.*)$/su;
const NAMED = /^(?:(?:the )?(?:(?:correct|right|best|final) )?(?:option|choice|letter|answer)(?: is)? ?:? )/i;
const LETTERS = 'ABCDEFGHIJ';

/** Options as a map; without any, ten bare letters. */
export function optionsFrom(
  given: Readonly<Record<string, string>> | readonly string[] | undefined,
): Options {
  if (given === undefined) return new Map([...LETTERS].map((letter) => [letter, '']));
  const entries = Array.isArray(given)
    ? given.map((text: string, index): [string, string] => [String.fromCharCode(65 + index), text])
    : Object.entries(given).map(([label, text]): [string, string] => [label.trim().toUpperCase(), text]);
  return new Map(entries);
}

/** The one label that an answer names; undefined for none, several, or a label that its text contradicts. */
export function readLabel(answer: string, options: Options): string | undefined {
  const text = answer.trim().replace(NAMED, '').trim();
  const alone = WRAPPED.exec(text)?.[1]?.toUpperCase();
  if (alone !== undefined && options.has(alone)) return alone;
  const byText = labelOfText(text, options);
  if (byText !== undefined) return byText;
  const spaced = /^(\p{Lu}) (\S.*)$/su.exec(text);
  if (spaced !== null && labelOfText(spaced[2] ?? '', options) === spaced[1]) return spaced[1];
  const match = LABELLED.exec(text);
  const label = (match?.[1] ?? match?.[2])?.toUpperCase();
  if (label === undefined || !options.has(label)) return undefined;
  const rest = match?.[3] ?? '';
  const named = labelOfText(rest, options);
  if (named !== undefined) return named === label ? label : undefined;
  return namesAnother(rest, label, options) ? undefined : label;
}

/** The set of labels that an answer lists ("A and C", "A, C", "AC"); undefined if anything else is in it. */
export function readLabels(answer: string, options: Options): ReadonlySet<string> | undefined {
  const text = answer
    .trim()
    .replace(NAMED, '')
    .replace(/[.;:]+$/, '');
  const single = readLabel(text, options);
  if (single !== undefined) return new Set([single]);
  const parts = text.replace(/^\{(.*)\}$/s, '$1').split(/ ?(?:,|;|&|\band\b|\n) ?/i);
  const joined = /^[A-Z]{2,10}$/.test(text) ? [...text] : parts.filter((part) => part.trim() !== '');
  const labels = joined.map((part) => readLabel(part, options));
  if (labels.length === 0 || labels.includes(undefined)) return undefined;
  const set = new Set(labels.filter((label) => label !== undefined));
  return set.size === labels.length ? set : undefined;
}

/** The label of the only option whose text this is. */
function labelOfText(text: string, options: Options): string | undefined {
  const folded = foldText(text);
  if (folded === '') return undefined;
  const labels = [...options].filter(([, option]) => option !== '' && foldText(option) === folded);
  return labels.length === 1 ? labels[0]?.[0] : undefined;
}

/** Whether a text after a label hedges: another label in brackets, or as a capital letter of its own. */
function namesAnother(rest: string, label: string, options: Options): boolean {
  for (const match of rest.matchAll(
    /[([]([\p{L}\d]{1,4})[)\]]|(?<![\p{L}\d'])([\p{L}\d]{1,4})(?![\p{L}\d'])/gu,
  )) {
    const [bracketed, bare] = [match[1]?.toUpperCase(), match[2]];
    const other =
      bracketed ?? (bare !== undefined && isLabelLike(bare, rest, match.index) ? bare.toUpperCase() : label);
    if (other !== label && options.has(other)) return true;
  }
  return false;
}

/** "A" and "I" are words unless something joins them to the first label, or closes them like one. */
function isLabelLike(token: string, rest: string, index: number): boolean {
  if (token !== token.toUpperCase()) return false;
  if (token !== 'A' && token !== 'I') return true;
  const before = /(?:\b(?:or|and|either|option|not)|[/,&]) ?$/i.test(rest.slice(0, index));
  return before || /^[).:]/.test(rest.slice(index + 1));
}
