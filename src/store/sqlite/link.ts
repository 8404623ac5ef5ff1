/**
 * The gateway's end of the database thread: posts the calls of one tick as one batch, bounds how many wait, and
 * starts the thread again, with back-off, when it dies. Calls that it had taken then fail with `store_unavailable`;
 * what they wrote is in the file or is not, so every call is safe to repeat.
 */
import { Worker } from 'node:worker_threads';
import { ConsortError } from '../../contract/errors.ts';
import type { Calls, Failure, Method, Reply, Request, ThreadMessage } from './messages.ts';

const MAX_IN_FLIGHT = 4_096;
const FIRST_RESTART_MS = 50;
const LAST_RESTART_MS = 5_000;

interface Waiting {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: ConsortError) => void;
}

export interface LinkOptions {
  readonly spawn: () => Worker;
  readonly onDown: (reason: string) => void;
  readonly onUp: () => void;
}

/** Runs `thread.ts` for a file. Built code has another ending than source. */
export function spawnThread(file: string): Worker {
  const ending = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
  return new Worker(new URL(`./thread.${ending}`, import.meta.url), { workerData: file, execArgv: [] });
}

const unavailable = (detail: string) => new ConsortError('store_unavailable', [detail]);

const errorOf = ({ unavailable: isAway, detail }: Failure) =>
  isAway ? unavailable(detail) : new ConsortError('internal', [detail]);

export class Link {
  readonly #options: LinkOptions;
  readonly #waiting = new Map<number, Waiting>();
  #worker: Worker | undefined;
  #isOpen = false;
  #isClosed = false;
  #outbox: Request[] = [];
  #nextId = 1;
  #restartMs = FIRST_RESTART_MS;
  #restart: NodeJS.Timeout | undefined;

  /** Resolves when the thread has opened its file; rejects when it cannot. */
  static async open(options: LinkOptions): Promise<Link> {
    const link = new Link(options);
    const failure = await link.#start();
    if (!failure) return link;
    link.#isClosed = true;
    throw unavailable(failure.detail);
  }

  private constructor(options: LinkOptions) {
    this.#options = options;
  }

  /** One call to the thread. */
  call<M extends Method>(method: M, ...args: Parameters<Calls[M]>): Promise<ReturnType<Calls[M]>> {
    return new Promise((resolve, reject) => {
      if (!this.#isOpen)
        return reject(unavailable(this.#isClosed ? 'it is closed' : 'its thread is starting again'));
      if (this.#waiting.size >= MAX_IN_FLIGHT)
        return reject(unavailable(`${MAX_IN_FLIGHT} calls already wait`));
      const id = this.#nextId++;
      this.#waiting.set(id, { resolve: (value) => resolve(value as ReturnType<Calls[M]>), reject });
      if (this.#outbox.length === 0) setImmediate(() => this.#post());
      this.#outbox.push({ id, method, args });
    });
  }

  /** Lets the thread finish what it has, then ends it; consumers that wait are turned away. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    clearTimeout(this.#restart);
    const worker = this.#worker;
    const farewell = this.#isOpen ? this.call('close') : undefined;
    this.#isClosed = true;
    await farewell?.catch(() => {});
    this.#isOpen = false;
    this.#failAll('it is closed');
    await worker?.terminate();
  }

  #post(): void {
    const batch = this.#outbox;
    this.#outbox = [];
    if (batch.length > 0) this.#worker?.postMessage(batch);
  }

  /** Gives the reason when the thread could not open the file. */
  #start(): Promise<Failure | undefined> {
    const worker = this.#options.spawn();
    this.#worker = worker;
    return new Promise((resolve) => {
      let reason = 'its thread ended';
      worker.on('message', (message: ThreadMessage) => {
        if ('replies' in message) return this.#settle(message.replies);
        if ('refused' in message) return resolve(message.refused);
        this.#isOpen = true;
        this.#restartMs = FIRST_RESTART_MS;
        resolve(undefined);
      });
      worker.on('error', (error: unknown) => {
        reason = `its thread failed: ${error instanceof Error ? error.message : String(error)}`;
      });
      worker.on('exit', () => {
        resolve({ unavailable: true, detail: reason });
        this.#lost(reason);
      });
    });
  }

  /** The thread is gone without being asked. */
  #lost(reason: string): void {
    if (this.#isClosed || !this.#worker) return;
    const wasOpen = this.#isOpen;
    this.#isOpen = false;
    this.#worker = undefined;
    this.#outbox = [];
    this.#failAll(reason);
    if (wasOpen) this.#options.onDown(reason);
    this.#restart = setTimeout(() => void this.#again(), this.#restartMs);
    this.#restartMs = Math.min(2 * this.#restartMs, LAST_RESTART_MS);
  }

  async #again(): Promise<void> {
    if (!(await this.#start())) this.#options.onUp();
  }

  #settle(replies: readonly Reply[]): void {
    for (const reply of replies) {
      const waiting = this.#waiting.get(reply.id);
      this.#waiting.delete(reply.id);
      if ('value' in reply) waiting?.resolve(reply.value);
      else waiting?.reject(errorOf(reply.failure));
    }
  }

  #failAll(reason: string): void {
    const waiting = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const { reject } of waiting) reject(unavailable(reason));
  }
}
