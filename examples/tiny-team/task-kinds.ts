/**
 * The toy tasks that these models are trained on: four kinds, each with its questions, their gold answers and
 * plausible wrong answers.
 */

export const kinds = ['add', 'max', 'reverse', 'mod'] as const;
export type Kind = (typeof kinds)[number];

export interface Question {
  kind: Kind;
  prompt: string;
  gold: string;
}

/** Draws an integer in [0, below). */
export type Draw = (below: number) => number;

const formatLine = 'End with: The answer is X.';
/** Without the a: to an exact match, an answer's first "a" is an article and does not count. */
const letters = 'bcdefghijk';
const divisor = 7;

const pick = <Item>(draw: Draw, items: readonly Item[]): Item => items[draw(items.length)] as Item;
const word = (draw: Draw, length: number): string[] => Array.from({ length }, () => pick(draw, [...letters]));

interface Recipe {
  ask(draw: Draw): { text: string; gold: string };
  /** A wrong answer of the sort that a half-trained model gives; it may happen to equal the gold one. */
  mistake(draw: Draw, question: Question): string;
}

const numbersIn = (question: Question): number[] => (question.prompt.match(/\d+/g) ?? []).map(Number);

const recipes: Record<Kind, Recipe> = {
  add: {
    ask(draw) {
      const [a, b] = [draw(100), draw(100)];
      return { text: `What is ${a} + ${b}?`, gold: String(a + b) };
    },
    mistake(draw, { gold }) {
      const slip = pick(draw, [-10, -1, 1, 10, draw(41) - 20]);
      return String(Math.abs(Number(gold) + slip));
    },
  },
  max: {
    ask(draw) {
      const numbers = new Set<number>();
      while (numbers.size < 3) numbers.add(draw(100));
      const [a, b, c] = [...numbers];
      return { text: `Which is largest: ${a}, ${b} or ${c}?`, gold: String(Math.max(...numbers)) };
    },
    mistake: (draw, question) => String(draw(5) === 0 ? draw(100) : pick(draw, numbersIn(question))),
  },
  reverse: {
    ask(draw) {
      const drawn = word(draw, 3 + draw(3));
      return { text: `Reverse the letters ${drawn.join(' ')}.`, gold: drawn.toReversed().join(' ') };
    },
    mistake(draw, { gold }) {
      const wrong = gold.split(' ');
      for (let slips = 1 + draw(3); slips > 0; slips -= 1)
        wrong[draw(wrong.length)] = pick(draw, [...letters]);
      return draw(3) === 0 ? wrong.toReversed().join(' ') : wrong.join(' ');
    },
  },
  mod: {
    ask(draw) {
      const a = draw(300);
      return { text: `What is ${a} mod ${divisor}?`, gold: String(a % divisor) };
    },
    mistake: (draw) => String(draw(divisor)),
  },
};

export function ask(kind: Kind, draw: Draw): Question {
  const { text, gold } = recipes[kind].ask(draw);
  return { kind, prompt: `${text} ${formatLine}`, gold };
}

export function mistake(question: Question, draw: Draw): string {
  for (;;) {
    const answer = recipes[question.kind].mistake(draw, question);
    if (answer !== question.gold) return answer;
  }
}

/**
 * Whether a question is kept out of training: a tenth of them, decided by the text alone so that no list has to be
 * kept. There are only 300 questions of the kind `mod`, so none of those is held out: the models have seen them all.
 */
export function isHeldOut({ kind, prompt }: Question): boolean {
  return kind !== 'mod' && hash(prompt) % 10 === 0;
}

/** One question in three, for splits of `mod` after the first training. */
export function isThird({ prompt }: Question): boolean {
  return hash(prompt) % 3 === 0;
}

/** FNV-1a with a final mix, so that its lowest digit is even over similar texts. */
function hash(text: string): number {
  let state = 0x811c9dc5;
  for (const char of text) state = Math.imul(state ^ char.charCodeAt(0), 0x01000193);
  state ^= state >>> 15;
  return Math.imul(state, 0x2c1b3c6d) >>> 8;
}

/** mulberry32: small, seeded, good enough to draw toy tasks. */
export function seededDraw(seed: number): Draw {
  let state = seed | 0;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * below);
  };
}
