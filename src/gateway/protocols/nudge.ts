/**
 * nudge: a base model writes, and wherever it is unsure a guide puts in a word.
 *
 * Source: Nudging (Fei et al. 2024, arXiv 2410.09300), by pieces instead of tokens, as its authors do over HTTP. The
 * guide gives the first word. Then the base goes on with its own tokens up to the first at which even the likeliest has
 * a probability below `gamma`; there the guide gives the next word, and the base is asked again. The words of one piece
 * of the guide are used as long as the base adds nothing between them. Only the guide ends the text: where the base
 * would, the guide is asked. Cost: at most two calls for each token of the answer, one after the other; the surer the
 * base, the fewer. Roles: the base is the first of `bases` in the coalition, else the first member; the guide the first
 * of `guides` among the others, else the first of them. Should one fail, the next takes its role, and whoever is left
 * alone goes on alone. Coalition: others are spares; a coalition of one is a plain call. Needs endpoints that go on with
 * a text and tell log-probabilities; vocabularies may differ. Loses when the base is sure of what is wrong.
 */
import Type, { type Static } from 'typebox';
import type { Part } from '../../contract/part.ts';
import { aliasList } from './member-options.ts';
import { Draft, wordsOf, type Piece } from './pieces.ts';
import { defineProtocol } from './protocol.ts';
import { roleOrder } from './role-order.ts';
import { answerAlone } from './single.ts';
import { MaxTokens } from './token-options.ts';

const NudgeOptions = Type.Object(
  {
    gamma: Type.Number({
      minimum: 0,
      maximum: 1,
      default: 0.4,
      description: 'Probability of its likeliest token below which the base is unsure.',
    }),
    chunk: Type.Integer({ minimum: 1, maximum: 256, default: 16, description: 'Tokens of a piece.' }),
    bases: aliasList('Aliases in order of preference for the base’s role; then the pool’s order.'),
    guides: aliasList('Aliases in order of preference for the guide’s role; then the pool’s order.'),
    maxTokens: MaxTokens,
  },
  { additionalProperties: false },
);
type NudgeOptions = Static<typeof NudgeOptions>;

const NAME = 'nudge';

/** How much of the piece the base is sure of, in characters. */
function sureOf({ tokens }: Piece, gamma: number): number {
  const unsure = tokens.findIndex(({ top }) => top < gamma);
  return (unsure === -1 ? tokens : tokens.slice(0, unsure)).reduce((sum, { text }) => sum + text.length, 0);
}

/** A piece of the guide, of which words are taken one by one. */
class Nudges {
  readonly #words: string[];
  readonly #piece: Piece;
  #at = 0;

  constructor(piece: Piece) {
    this.#piece = piece;
    this.#words = wordsOf(piece);
  }

  get isEmpty(): boolean {
    return this.#words.length === 0;
  }

  /** Whether the text is over once all words are in it. */
  get isEnd(): boolean {
    return this.isEmpty && this.#piece.isEnd;
  }

  *next(draft: Draft): Generator<Part, void> {
    const word = this.#words.shift() ?? '';
    const from = this.#at;
    this.#at += word.length;
    yield* draft.add(this.#piece, from, this.#at);
  }
}

export const nudge = defineProtocol<NudgeOptions>({
  name: NAME,
  version: 1,
  summary: 'A base model writes; wherever it is unsure a guide puts in a word.',
  source: 'Nudging, arXiv 2410.09300',
  options: NudgeOptions,
  streams: true,
  tools: false,
  reuse: 'D',
  symmetric: () => false,
  needs: () => ['continuation', 'logprobs'],
  describe({ maxTokens }, members) {
    const calls = members === 1 ? 1 : 2 * maxTokens;
    return { calls, path: calls, widest: 1 };
  },
  async *run(task, team, { gamma, chunk, bases, guides, maxTokens }, context) {
    if (team.length === 1) return yield* answerAlone(task, team, context);
    const draft = new Draft(task, { name: NAME, maxTokens }, context);
    let nudges: Nudges | undefined;
    while (!(yield* draft.unlessTwo(team))) {
      const [base, ...others] = roleOrder(draft.present(team), bases);
      if (!base) break;
      if (draft.authors.length > 0) {
        const piece = await draft.piece([base], chunk);
        if (!piece) continue;
        const sure = sureOf(piece, gamma);
        if (sure > 0) nudges = undefined;
        yield* draft.add(piece, 0, sure);
        if (!draft.isOpen || (sure === piece.text.length && !piece.isEnd)) continue;
      }
      if (!nudges || nudges.isEmpty) {
        const piece = await draft.piece(roleOrder(others, guides).slice(0, 1), chunk);
        if (!piece) continue;
        nudges = new Nudges(piece);
      }
      yield* nudges.next(draft);
      if (nudges.isEnd) draft.close('stop');
    }
    return yield* draft.end();
  },
});
