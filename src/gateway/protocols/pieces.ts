/**
 * A text that members write in turns, piece by piece. Each goes on with what stands there as if it had written it, as an
 * unfinished turn of the assistant; text crosses from one to the other, so that their vocabularies may differ. What
 * nudge, mentor and switch have in common.
 */
import { isAbsent, type Answer, type Call } from '../../contract/call.ts';
import { ConsortError } from '../../contract/errors.ts';
import type { Part } from '../../contract/part.ts';
import type { Member } from '../../contract/plan.ts';
import type { Task } from '../../contract/task.ts';
import { withoutThinking } from '../../scoring/rewards/thinking.ts';
import { alternativesAt, isAlternative } from './alternatives.ts';
import { callOf, Round, type Contribution } from './ask-all.ts';
import { endText, GrowingText, say, tokenLimit } from './growing-text.ts';
import type { ProtocolContext } from './protocol.ts';
import { refuseForm } from './refuse-form.ts';

/** One token of a piece, with the probability of the likeliest in its place: 0 where the endpoint did not tell. */
export interface PieceToken {
  readonly text: string;
  readonly top: number;
}

/** What a member would go on with. Nothing of it stands in the text until it is added. */
export interface Piece extends Contribution {
  readonly text: string;
  readonly tokens: readonly PieceToken[];
  /** Whether the member ends the text with it. */
  readonly isEnd: boolean;
}

function tokensOf({ message, logprobs = [] }: Answer): PieceToken[] {
  const tokens = logprobs.filter(isAlternative).map((entry) => {
    const likeliest = Math.max(...alternativesAt(entry).map(({ logprob }) => logprob));
    return { text: entry.token, top: Math.exp(likeliest) };
  });
  // Some endpoints tell of the token that ended the text, too, which is none of its words.
  let told = 0;
  const spoken = tokens.filter(({ text }) => {
    const isOfText = told < message.text.length;
    told += text.length;
    return isOfText;
  });
  // A token that is no whole character makes them differ: then nothing is known of any.
  const isWhole = spoken.map(({ text }) => text).join('') === message.text;
  return isWhole ? spoken : [{ text: message.text, top: 0 }];
}

/**
 * The words of a piece, each with the space before it. Of a piece that was cut off the last may be a part of a word, and
 * is left out unless it is the only one.
 */
export function wordsOf({ text, isEnd }: Pick<Piece, 'text' | 'isEnd'>): string[] {
  const words: string[] = text.match(/\s*\S+/g) ?? [];
  return isEnd || words.length < 2 ? words : words.slice(0, -1);
}

/** How many of the piece's tokens begin in this part of its text. */
function countIn({ tokens }: Piece, from: number, to: number): number {
  let at = 0;
  let count = 0;
  for (const { text } of tokens) {
    if (at >= from && at < to) count++;
    at += text.length;
  }
  return Math.max(1, count);
}

export interface DraftOptions {
  readonly name: string;
  readonly maxTokens: number;
}

export class Draft {
  readonly #task: Task;
  readonly #context: ProtocolContext;
  readonly #round = new Round();
  readonly #text: GrowingText;
  readonly #limit: number;
  readonly #authors: Contribution[] = [];
  #tokens = 0;
  #reason: 'stop' | 'length' | undefined;

  /** @throws `not_supported` for what a text of several authors cannot be held to */
  constructor(task: Task, { name, maxTokens }: DraftOptions, context: ProtocolContext) {
    refuseForm(task, name);
    this.#task = task;
    this.#context = context;
    this.#text = new GrowingText(task.sampling);
    this.#limit = tokenLimit(task.sampling, maxTokens);
  }

  /** Whether more can be added. */
  get isOpen(): boolean {
    return this.#reason === undefined;
  }

  /** What stands there, by author and in order. */
  get authors(): readonly Contribution[] {
    return this.#authors;
  }

  /** Who has failed before. */
  get round(): Round {
    return this.#round;
  }

  /** Those who have not failed. */
  present(team: readonly Member[]): Member[] {
    const gone = new Set(this.#round.absences.map(({ member }) => member));
    return team.filter((member) => !gone.has(member));
  }

  /** The conversation with the text so far as the assistant's turn. */
  messages(): Call['messages'] {
    const { messages } = this.#task;
    return this.#text.text === '' ? messages : [...messages, { role: 'assistant', content: this.#text.text }];
  }

  /** The number of the next piece, from 1: it is in the slots of all that is asked before one is added. */
  get place(): number {
    return this.#authors.length + 1;
  }

  /** The slots whose text stands there. */
  get reads(): string[] {
    return [...new Set(this.#authors.map(({ slot }) => slot))];
  }

  /** What the first of `order` that does not fail would go on with; undefined when all fail. */
  async piece(order: readonly Member[], most: number): Promise<Piece | undefined> {
    for (const member of order) {
      if (this.#round.absences.length > 0 && this.#context.left().calls === 0) return undefined;
      const reply = this.#context.ask(this.#callOf(member, most));
      const result = await reply.answer;
      if (isAbsent(result)) {
        this.#round.add(reply, result);
        continue;
      }
      const { text } = result.message;
      if (withoutThinking(text) === text) {
        const isEnd = result.finishReason !== 'length';
        const { slot, sample } = reply.call;
        return { member, slot, sample, answer: result, text, tokens: tokensOf(result), isEnd };
      }
      // Where a thought is begun in the middle of a text nobody knows what of it is answer.
      const error = new ConsortError('upstream_malformed', [member.alias, 'reasoning inside a text']);
      this.#round.add(reply, { absent: true, status: 'failed', error });
    }
    return undefined;
  }

  #callOf(member: Member, most: number): Call {
    const { max_tokens: _max, max_completion_tokens: _most, ...sampling } = this.#task.sampling;
    const call = callOf(this.#task, member, {
      slot: `piece-${this.place}/${member.alias}`,
      purpose: 'continue',
      messages: this.messages(),
      reads: this.reads,
      canReachClient: false,
      confidence: true,
    });
    const { stop: _stop, ...unstopped } = sampling;
    return {
      ...call,
      sampling: { ...unstopped, max_tokens: Math.min(most, this.#limit - this.#tokens) },
      ...(this.#text.text !== '' && { continues: true }),
    };
  }

  /** Adds a part of a piece, from its start or from where the last one ended; says what can be said. */
  *add(piece: Piece, from: number, to: number): Generator<Part, void> {
    const text = piece.text.slice(from, to);
    if (text === '') return;
    this.#tokens += countIn(piece, from, to);
    const { member, slot, sample, answer } = piece;
    this.#authors.push({ member, slot, sample, answer: { ...answer, message: { text } } });
    yield* say(slot, this.#text.add(text));
    if (this.#text.isStopped) this.close('stop');
    else if (this.#tokens >= this.#limit) this.close('length');
  }

  /** Nothing is added any more. */
  close(reason: 'stop' | 'length'): void {
    this.#reason ??= reason;
  }

  /** The last one that is left goes on to the end, unless time or money is spent. */
  async *alone(member: Member): AsyncGenerator<Part, void> {
    while (this.isOpen) {
      const piece = await this.piece([member], this.#limit);
      if (!piece) return this.#giveUp();
      yield* this.add(piece, 0, piece.text.length);
      if (piece.isEnd || piece.text === '') this.close('stop');
    }
  }

  /**
   * Nobody can go on: what stands there is cut short when time or money is spent.
   *
   * @throws the members' failures where there is nothing, or when they have all failed
   */
  #giveUp(): void {
    const isSpent = this.#round.absences.some(
      ({ absence: { error } }) => error.code === 'deadline' || error.code === 'budget_spent',
    );
    if (this.#text.text === '' || !(isSpent || this.#context.left().calls === 0)) throw this.#round.failure();
    this.close('length');
  }

  /** Ends where nobody is left, or goes on with the only one. False while there are two or more. */
  async *unlessTwo(team: readonly Member[]): AsyncGenerator<Part, boolean> {
    const present = this.present(team);
    const [first, second] = present;
    // With nothing left there is no use in asking the next; the first is asked, so that there is a reason.
    const isTried = this.#authors.length > 0 || this.#round.absences.length > 0;
    if (!first || (isTried && this.#context.left().calls === 0)) this.#giveUp();
    else if (!second) yield* this.alone(first);
    return !this.isOpen;
  }

  *end(): Generator<Part, Answer> {
    const [first] = this.#authors;
    const from = [...new Set(this.#authors.map(({ member }) => member.alias))];
    const usage = { inputTokens: first?.answer.usage.inputTokens ?? 0, outputTokens: this.#tokens };
    return yield* endText(this.#text, {
      slot: first?.slot ?? '',
      reason: this.#reason ?? 'length',
      from,
      usage,
    });
  }
}
