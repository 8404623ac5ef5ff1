/** How a simulated model says what it thinks: in varied formats, at its own pace, with its own accidents. */
import { ConsortError } from '../../../contract/errors.ts';
import { normal, uniform } from './chance.ts';
import type { SimModel } from './pool.ts';
import type { Thought } from './mind.ts';

const FILLER = [
  'Let me work this out step by step.',
  'First I look at what is asked.',
  'There are several ways to read it.',
  'I check the units and the signs.',
  'That rules out the obvious guess.',
  'A second look gives the same result.',
];

const FORMATS: readonly ((answer: string) => string)[] = [
  (answer) => `Therefore the result is \\boxed{${answer}}.`,
  (answer) => `The final answer is ${answer}.`,
  (answer) => `**Final answer:** ${answer}`,
  (answer) => `<answer>${answer}</answer>`,
  (answer) => `#### ${answer}`,
];

const REFUSAL = 'I am not able to help with that.';
const CHAT =
  'I am a simulated model: I only know simulated tasks such as "Simulated task sim:reason/42. Which four-digit ' +
  'number does it stand for?". Configure real models to get real answers.';

export interface Speech {
  readonly text: string;
  /** Pieces as they would stream. */
  readonly words: readonly string[];
  readonly outputTokens: number;
  readonly firstTokenMs: number;
  readonly gapMs: number;
}

/** @param isTerse whether to leave out most of the thinking aloud: for evaluation without delays */
export function speech(
  model: SimModel,
  thought: Thought | undefined,
  key: readonly (string | number)[],
  isTerse: boolean,
): Speech {
  const tokens = Math.max(
    8,
    Math.round(model.tokens.mean * Math.exp(model.tokens.sigma * normal('tokens', ...key))),
  );
  const text = thought ? think(thought, isTerse ? 1 : Math.ceil(tokens / 8), key) : CHAT;
  return {
    ...pace(model, key),
    text,
    words: text.match(/\S+\s*/g) ?? [],
    outputTokens: thought ? tokens : 40,
  };
}

/** One word and nothing else: the answer to a label step. */
export function brief(text: string, model: SimModel, key: readonly (string | number)[]): Speech {
  return { ...pace(model, key), text, words: [text], outputTokens: 1 };
}

function pace(model: SimModel, key: readonly (string | number)[]): Pick<Speech, 'firstTokenMs' | 'gapMs'> {
  return {
    firstTokenMs: Math.exp(model.firstToken.mu + model.firstToken.sigma * normal('first', ...key)),
    gapMs: 1000 / model.tokensPerSecond,
  };
}

function think({ answer }: Thought, sentences: number, key: readonly (string | number)[]): string {
  const aloud: string[] = [];
  for (let i = 0; i < Math.min(sentences, 12); i++) {
    aloud.push(FILLER[Math.floor(uniform('filler', i, ...key) * FILLER.length)]!);
  }
  const format = FORMATS[Math.floor(uniform('format', ...key) * FORMATS.length)]!;
  return `${aloud.join(' ')}\n${format(answer)}`;
}

/** What goes wrong with this call, if anything: an error to throw, a text to say instead, or a silence. */
export function accident(
  alias: string,
  model: SimModel,
  key: readonly (string | number)[],
): ConsortError | { say: string } | 'hang' | undefined {
  let draw = uniform('accident', ...key);
  const { http500, http429, hang, malformed, refusal } = model.fail;
  if ((draw -= http500) < 0) return new ConsortError('upstream_status', [alias, 500, 'simulated failure']);
  if ((draw -= http429) < 0) {
    const more = { status: 429, retryAfterMs: 1000 };
    return new ConsortError('upstream_status', [alias, 429, 'simulated rate limit'], more);
  }
  if ((draw -= hang) < 0) return 'hang';
  if ((draw -= malformed) < 0) return { say: `${FILLER[0]}\n${FILLER[1]}` };
  if ((draw -= refusal) < 0) return { say: REFUSAL };
  return undefined;
}
