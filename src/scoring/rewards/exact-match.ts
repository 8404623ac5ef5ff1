/**
 * Equality of short texts, after folding what carries no meaning (case, spaces, quotes, final punctuation, one leading
 * article). Signs, decimal points, slashes and brackets are kept: stripping all punctuation, as SQuAD's script does,
 * accepts -5 for 5 and 35 for 3.5. Gold: a text, or a list of aliases.
 */
import Type from 'typebox';
import { LONGEST_ANSWER, readableText } from './extract.ts';
import { unwrapAnswer } from './markup.ts';
import { graded, noAnswer, pureVerifier } from './pure-verifier.ts';
import { foldText, withoutArticle } from './text-form.ts';
import { cleanUnicode } from './unicode.ts';

const Params = Type.Object({}, { additionalProperties: false });

export const exactMatch = pureVerifier({
  id: 'exact-match',
  version: '1',
  params: Params,
  judge: ({ completion, found, golds }) => {
    const forms = new Set(golds.map(textForm));
    forms.delete('');
    const whole = wholeText(completion);
    if (whole !== undefined && whole !== '' && forms.has(textForm(whole))) {
      return graded(true, { answer: whole, source: 'whole' });
    }
    return typeof found === 'string' ? noAnswer(found) : graded(forms.has(textForm(found.answer)), found);
  },
});

function textForm(text: string): string {
  return withoutArticle(foldText(unwrapAnswer(cleanUnicode(text))));
}

/** A gold of several lines, or one that reads like an announcement, can only be matched as a whole. */
function wholeText(completion: string): string | undefined {
  const text = readableText(completion)?.trim();
  return text === undefined || text.length > LONGEST_ANSWER ? undefined : text;
}
