/**
 * One model in memory: its tokenizer, and a few sequences that calls borrow, with a bounded queue before them. Each
 * sequence has a context of its own: in one context they share batches, and about once in a hundred thousand tokens two
 * of them got each other's distribution.
 */
import type { Llama, LlamaContext, LlamaContextSequence, LlamaModel, Token } from 'node-llama-cpp';
import type { Turn } from './chat-request.ts';
import { RequestError } from './request-error.ts';
import type { Distribution } from './sample.ts';

export const contextSize = 512;

const sequences = 4;
const longestQueue = 512;

/** A LoRA adapter in llama.cpp's format, which may go once the model is loaded, and where it comes from. */
export interface Lora {
  file: string;
  root: string;
  parent: string;
}

/** How a prompt ends: inside its last turn, or with the opening of the next. */
export interface Ending {
  continues: boolean;
  opensReply: boolean;
}

type Take = (sequence: LlamaContextSequence) => void;

export class TinyModel {
  readonly id: string;
  readonly description: string;
  readonly path: string;
  /** Where the weights come from. */
  readonly root: string;
  /** The model that an adapter changes. */
  readonly parent: string | null;
  readonly #model: LlamaModel;
  readonly #contexts: readonly LlamaContext[];
  readonly #idle: LlamaContextSequence[];
  readonly #waiting = new Set<Take>();
  #calls = 0;
  #lastCallEnded: (() => void) | undefined;

  private constructor(
    id: string,
    path: string,
    lora: Lora | undefined,
    model: LlamaModel,
    contexts: readonly LlamaContext[],
  ) {
    this.id = id;
    this.path = path;
    this.root = lora?.root ?? id;
    this.parent = lora?.parent ?? null;
    this.description = model.fileInfo.metadata.general.description ?? '';
    this.#model = model;
    this.#contexts = contexts;
    this.#idle = contexts.map((context) => context.getSequence());
  }

  static async load(llama: Llama, id: string, path: string, lora?: Lora): Promise<TinyModel> {
    const model = await llama.loadModel({ modelPath: path });
    try {
      const options = { contextSize, sequences: 1, threads: 1, flashAttention: false };
      const contexts: LlamaContext[] = [];
      while (contexts.length < sequences) {
        contexts.push(await model.createContext({ ...options, ...(lora && { lora: lora.file }) }));
      }
      return new TinyModel(id, path, lora, model, contexts);
    } catch (error) {
      await model.dispose();
      throw error;
    }
  }

  /** The matrices by their names in the file. */
  get shapes(): ReadonlyMap<string, { rows: number; columns: number }> {
    const tensors = this.#model.fileInfo.tensorInfo ?? [];
    return new Map(
      tensors.map(({ name, dimensions }) => {
        const [columns = 0, rows = 1] = dimensions.map(Number);
        return [name, { rows, columns }];
      }),
    );
  }

  get heads(): { q: number; k: number } {
    const { head_count: q, head_count_kv: k } = this.#model.fileInfo.architectureMetadata.attention ?? {};
    if (typeof q === 'number' && typeof k === 'number') return { q, k };
    throw new Error(`${this.path} does not say how many heads its attention has`);
  }

  /** A call holds the model from its start to its end: until then it cannot be closed. */
  async during(call: () => Promise<void>): Promise<void> {
    this.#calls += 1;
    try {
      await call();
    } finally {
      this.#calls -= 1;
      if (this.#calls === 0) this.#lastCallEnded?.();
    }
  }

  /** Frees the memory when the calls in flight are done; the caller sees to it that no new ones come. */
  async close(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#lastCallEnded = resolve;
    if (this.#calls > 0) await promise;
    for (const context of this.#contexts) await context.dispose();
    await this.#model.dispose();
  }

  /**
   * The prompt as the chat template writes it. What a turn says is encoded as plain text, so that a text with
   * `<|end|>` in it cannot pass for a turn of its own.
   */
  prompt(turns: readonly Turn[], { continues, opensReply }: Ending): Token[] {
    const mark = (name: string): Token[] => this.#model.tokenize(`<|${name}|>`, true);
    const written = turns.flatMap(({ role, content }, index) => [
      ...mark(role),
      ...this.#model.tokenize(content),
      ...(continues && index === turns.length - 1 ? [] : mark('end')),
    ]);
    return opensReply ? [...written, ...mark('assistant')] : written;
  }

  /** A text as it stands, without a template. */
  tokens(text: string): Token[] {
    return this.#model.tokenize(text);
  }

  knows(token: Token): boolean {
    return token < (this.shapes.get('token_embd.weight')?.rows ?? 0);
  }

  /** Position by position the distribution that the token was drawn from, at temperature 1; none for the first. */
  async distributionsAfter(
    prompt: readonly Token[],
    signal: AbortSignal,
  ): Promise<(Distribution | undefined)[]> {
    const sequence = await this.borrow(signal);
    try {
      await sequence.clearHistory();
      const plain = { temperature: 1, topK: 0, topP: 1, minP: 0 };
      const read = { generateNext: { probabilities: true, options: plain } };
      const outputs = await sequence.controlledEvaluate(prompt.map((token) => [token, read]));
      return [undefined, ...outputs.slice(0, -1).map((output) => output?.next.probabilities)];
    } finally {
      this.giveBack(sequence);
    }
  }

  isEnd(token: Token): boolean {
    return this.#model.isEogToken(token);
  }

  text(tokens: readonly Token[], special = false): string {
    return this.#model.detokenize(tokens, special);
  }

  /** Waits for a sequence that no call uses; gives up when the signal says so. */
  async borrow(signal: AbortSignal): Promise<LlamaContextSequence> {
    signal.throwIfAborted();
    const free = this.#idle.pop();
    if (free) return free;
    if (this.#waiting.size >= longestQueue) {
      throw new RequestError(
        503,
        'overloaded',
        `${longestQueue} calls wait for ${this.id} already; try later`,
      );
    }
    const { promise, resolve, reject } = Promise.withResolvers<LlamaContextSequence>();
    const leave = (): void => {
      this.#waiting.delete(resolve);
      reject(signal.reason);
    };
    this.#waiting.add(resolve);
    signal.addEventListener('abort', leave, { once: true });
    try {
      return await promise;
    } finally {
      signal.removeEventListener('abort', leave);
    }
  }

  giveBack(sequence: LlamaContextSequence): void {
    const [next] = this.#waiting;
    if (!next) {
      this.#idle.push(sequence);
      return;
    }
    this.#waiting.delete(next);
    next(sequence);
  }
}
