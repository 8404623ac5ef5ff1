/**
 * Connections to Redis. Commands share one; each consumer that waits has its own, because whatever stands behind a
 * blocking read waits with it. Nothing is queued while the server is away, and a server that accepts but does not
 * answer is given up on after the time-out, so memory stays bounded.
 */
import { readFileSync } from 'node:fs';
import { Redis, type RedisOptions } from 'ioredis';
import { ConsortError } from '../../contract/errors.ts';
import type { StoreSettings } from '../options.ts';

const MAX_IN_FLIGHT = 4_096;
const FIRST_RETRY_MS = 50;
const LAST_RETRY_MS = 2_000;

/** The scripts of this folder, by file name. */
interface Scripts {
  append(...args: (string | number)[]): Promise<unknown>;
  trim(...args: (string | number)[]): Promise<unknown>;
  apply(...args: (string | number)[]): Promise<unknown>;
  lease(...args: (string | number)[]): Promise<unknown>;
  release(...args: (string | number)[]): Promise<unknown>;
  publish(...args: (string | number)[]): Promise<unknown>;
  reserve(...args: (string | number)[]): Promise<unknown>;
  settle(...args: (string | number)[]): Promise<unknown>;
  change(...args: (string | number)[]): Promise<unknown>;
  keep(...args: (string | number)[]): Promise<unknown>;
  find(...args: (string | number)[]): Promise<unknown>;
  take(...args: (string | number)[]): Promise<unknown>;
}
export type Commands = Redis & {
  readonly [Name in keyof Scripts as `consort${Capitalize<Name>}`]: Scripts[Name];
};

const lua = (file: string) => readFileSync(new URL(`./${file}.lua`, import.meta.url), 'utf8');

const unavailable = (detail: string, cause?: unknown) =>
  new ConsortError('store_unavailable', [detail], cause === undefined ? {} : { cause });

export class Connection {
  readonly #redis: Commands;
  readonly #settings: StoreSettings;
  readonly #readers = new Map<string, Redis>();
  #inFlight = 0;
  #isDown = false;
  #isClosed = false;

  /** Connects; resolves when the server is ready, or after the time-out if it is not. */
  static async open(url: string, settings: StoreSettings): Promise<Connection> {
    const connection = new Connection(url, settings);
    await connection.#firstReady();
    return connection;
  }

  private constructor(url: string, settings: StoreSettings) {
    this.#settings = settings;
    const options = {
      enableOfflineQueue: false,
      autoResendUnfulfilledCommands: false,
      maxRetriesPerRequest: 0,
      connectTimeout: settings.timeoutMs,
      commandTimeout: settings.timeoutMs,
      connectionName: 'consort',
      retryStrategy: (times: number) =>
        Math.min(FIRST_RETRY_MS * 2 ** Math.min(times - 1, 10), LAST_RETRY_MS),
      reconnectOnError: (error: Error) => error.message.startsWith('READONLY'),
      replyMapping: 'legacy',
      scripts: {
        consortAppend: { lua: lua('append') },
        consortTrim: { lua: lua('trim'), numberOfKeys: 3 },
        consortApply: { lua: lua('apply'), numberOfKeys: 4 },
        consortLease: { lua: lua('lease'), numberOfKeys: 2 },
        consortRelease: { lua: lua('release'), numberOfKeys: 1 },
        consortPublish: { lua: lua('publish'), numberOfKeys: 2 },
        consortReserve: { lua: lua('reserve'), numberOfKeys: 1 },
        consortSettle: { lua: lua('settle'), numberOfKeys: 1 },
        consortChange: { lua: lua('change'), numberOfKeys: 3 },
        consortKeep: { lua: lua('keep'), numberOfKeys: 2 },
        consortFind: { lua: lua('find'), numberOfKeys: 2 },
        consortTake: { lua: lua('take'), numberOfKeys: 1 },
      },
    } as const satisfies RedisOptions;
    this.#redis = new Redis(url, options) as Commands;
    this.#redis.on('error', (error) => this.#down(error.message));
    this.#redis.on('close', () => this.#down('the connection was closed'));
    this.#redis.on('ready', () => this.#up());
  }

  /** Runs commands; whatever goes wrong comes out as an error of the catalogue. */
  async run<T>(commands: (redis: Commands) => Promise<T>): Promise<T> {
    if (this.#isClosed) throw unavailable('it is closed');
    if (this.#inFlight >= MAX_IN_FLIGHT) throw unavailable(`${MAX_IN_FLIGHT} calls already wait`);
    this.#inFlight += 1;
    try {
      return await commands(this.#redis);
    } catch (error) {
      throw this.#translate(error);
    } finally {
      this.#inFlight -= 1;
    }
  }

  /** Runs a command that waits up to `blockMs`, on a connection that `name` keeps for itself. */
  async wait<T>(name: string, blockMs: number, command: (reader: Redis) => Promise<T>): Promise<T> {
    if (this.#isClosed) throw unavailable('it is closed');
    const reader = await this.#reader(name);
    const patience = blockMs + this.#settings.timeoutMs;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(unavailable(`no answer within ${patience} ms`)), patience);
    });
    try {
      return await Promise.race([command(reader), late]);
    } catch (error) {
      // What the server sends late must not reach the next caller.
      if (!isReply(error)) this.#drop(name, reader);
      throw this.#translate(error);
    } finally {
      clearTimeout(timer);
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const [name, reader] of this.#readers) this.#drop(name, reader);
    this.#redis.disconnect();
  }

  async #reader(name: string): Promise<Redis> {
    const known = this.#readers.get(name);
    if (known?.status === 'ready') return known;
    if (known) this.#drop(name, known);
    const reader = this.#redis.duplicate({
      commandTimeout: undefined,
      lazyConnect: true,
      retryStrategy: () => null,
    });
    reader.on('error', () => {});
    this.#readers.set(name, reader);
    try {
      await Promise.race([reader.connect(), this.#connectTimeout()]);
      return reader;
    } catch (error) {
      this.#drop(name, reader);
      throw this.#translate(error);
    }
  }

  #connectTimeout(): Promise<never> {
    const { timeoutMs } = this.#settings;
    return new Promise((_, reject) => {
      setTimeout(() => reject(unavailable(`no connection within ${timeoutMs} ms`)), timeoutMs).unref();
    });
  }

  #drop(name: string, reader: Redis): void {
    if (this.#readers.get(name) === reader) this.#readers.delete(name);
    reader.disconnect();
  }

  #firstReady(): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, this.#settings.timeoutMs);
      this.#redis.once('ready', () => {
        clearTimeout(timer);
        resolve();
      });
    });
  }

  #translate(error: unknown): ConsortError {
    if (ConsortError.is(error)) return error;
    const detail = error instanceof Error ? error.message : String(error);
    if (isReply(error) && /^(ERR|WRONGTYPE|NOGROUP)\b/.test(detail)) {
      return new ConsortError('internal', [detail], { cause: error });
    }
    // Commands behind one that was not answered would only grow the queue: start over.
    if (detail === 'Command timed out' && this.#redis.status === 'ready') this.#redis.disconnect(true);
    return unavailable(detail, error);
  }

  #down(reason: string): void {
    if (this.#isDown || this.#isClosed) return;
    this.#isDown = true;
    this.#settings.onDown(reason);
  }

  #up(): void {
    if (this.#isDown) this.#settings.onUp();
    this.#isDown = false;
  }
}

/** Whether the server itself answered with an error. */
export function isReply(error: unknown): error is Error {
  return error instanceof Error && error.name === 'ReplyError';
}
