/** One model in memory: its tokenizer, and a few sequences that calls borrow, with a bounded queue before them. */
import type { Llama, LlamaContextSequence, LlamaModel, Token } from 'node-llama-cpp';
import type { Turn } from './chat-request.ts';
import { RequestError } from './request-error.ts';

export const contextSize = 512;

const sequences = 4;
const longestQueue = 512;

type Take = (sequence: LlamaContextSequence) => void;

export class TinyModel {
  readonly id: string;
  readonly description: string;
  readonly #model: LlamaModel;
  readonly #idle: LlamaContextSequence[];
  readonly #waiting = new Set<Take>();

  private constructor(id: string, model: LlamaModel, idle: LlamaContextSequence[]) {
    this.id = id;
    this.description = model.fileInfo.metadata.general.description ?? '';
    this.#model = model;
    this.#idle = idle;
  }

  static async load(llama: Llama, id: string, path: string): Promise<TinyModel> {
    const model = await llama.loadModel({ modelPath: path });
    const context = await model.createContext({ contextSize, sequences, threads: 1, flashAttention: false });
    return new TinyModel(
      id,
      model,
      Array.from({ length: sequences }, () => context.getSequence()),
    );
  }

  /**
   * The prompt as the chat template writes it. What a turn says is encoded as plain text, so that a text with
   * `<|end|>` in it cannot pass for a turn of its own.
   */
  prompt(turns: readonly Turn[]): Token[] {
    const mark = (name: string): Token[] => this.#model.tokenize(`<|${name}|>`, true);
    const written = turns.flatMap(({ role, content }) => [
      ...mark(role),
      ...this.#model.tokenize(content),
      ...mark('end'),
    ]);
    return [...written, ...mark('assistant')];
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
