/**
 * One option out of several, or a set of them (`multi`). Only a stated answer counts: a box, a tag, an announcement or
 * the last line; never an option that is merely mentioned, and never the word "A" in a sentence. Two labels where one
 * is asked, or a label with another option's text, score 0. Gold: a label, an option's text, or with `multi` a list.
 */
import Type from 'typebox';
import { optionsFrom, readLabel, readLabels, type Options } from './choice-grammar.ts';
import { LONGEST_ANSWER, readableText, type ExtractedAnswer, type NoAnswer } from './extract.ts';
import { unwrapAnswer } from './markup.ts';
import { graded, graderError, noAnswer, pureVerifier, unparseable } from './pure-verifier.ts';
import type { Grade } from './reward.ts';

const Params = Type.Object(
  {
    /** Texts by label, or in order for A, B, C …; without them the labels A to J are read. */
    options: Type.Optional(
      Type.Union([Type.Record(Type.String(), Type.String()), Type.Array(Type.String())]),
    ),
    /** The same, under the name that tasks have for it. */
    choices: Type.Optional(Type.Record(Type.String(), Type.String())),
    /** Whether a set of labels is asked for; all of them must be named, and no other. */
    multi: Type.Optional(Type.Boolean()),
  },
  { additionalProperties: false },
);

export const multipleChoice = pureVerifier({
  id: 'multiple-choice',
  version: '1',
  params: Params,
  judge: ({ completion, found, golds, params }) => {
    const options = optionsFrom(params.options ?? params.choices);
    const wanted = golds.map((gold) => readLabel(gold, options));
    const labels = new Set(wanted.filter((label) => label !== undefined));
    if (wanted.includes(undefined)) return graderError('gold', `${golds.join(', ')} names no option`);
    const several = params.multi === true;
    if (!several && labels.size > 1) return graderError('gold', 'several labels need multi: true');
    const read = several ? readLabels : readLabel;
    return gradeChoice(found === 'unstated' ? lastLine(completion, options) : found, (answer) => {
      const choice = read(answer, options);
      if (choice === undefined) return undefined;
      return typeof choice === 'string' ? labels.has(choice) : sameSet(choice, labels);
    });
  },
});

function gradeChoice(
  found: ExtractedAnswer | NoAnswer,
  matches: (answer: string) => boolean | undefined,
): Grade {
  if (typeof found === 'string') return noAnswer(found);
  const match = matches(found.answer);
  return match === undefined ? unparseable(found) : graded(match, found);
}

/** The last line of a response, where nothing else is stated, if it is an option and no prose. */
function lastLine(completion: string, options: Options): ExtractedAnswer | 'unstated' {
  const line = (readableText(completion) ?? '').trimEnd().split('\n').at(-1)?.trim() ?? '';
  if (line.length > LONGEST_ANSWER) return 'unstated';
  const answer = unwrapAnswer(line);
  return readLabels(answer, options) === undefined ? 'unstated' : { answer, source: 'last-line' };
}

function sameSet(a: ReadonlySet<string>, b: ReadonlySet<string>): boolean {
  return a.size === b.size && a.isSubsetOf(b);
}
