/**
 * What a run did, written before it is done: one JSON line an entry, on disk (fsync) before the request goes out, and
 * the datums of each step in a file beside it. From these a process that died, or a server that forgot its model, is
 * brought back to the same weights: identical sequence numbers and payloads where the model lives, the same payloads
 * in the same order where it has to be built anew from its last saved state.
 */
import { createHash } from 'node:crypto';
import { mkdir, open, readFile, rename, rm, truncate, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { ConsortError } from '../../contract/errors.ts';
import { JournalEntry, RunLog, StepPayload } from './run-log.ts';
import { Reader, type WireDatum } from './wire.ts';

const entryReader = new Reader(JournalEntry);
const payloadReader = new Reader(StepPayload);
const NAME = 'journal.ndjson';

/** An entry without the token, which the journal adds. */
type Unsigned<E> = E extends unknown ? Omit<E, 'token'> : never;

export class Journal {
  readonly log = new RunLog();
  readonly #directory: string;
  readonly #token: number;
  readonly #file: FileHandle;

  private constructor(directory: string, token: number, file: FileHandle) {
    this.#directory = directory;
    this.#token = token;
    this.#file = file;
  }

  /**
   * Opens the journal of a run, and makes it if there is none. A last line that a crash left torn is cut off: what it
   * announced was never sent.
   *
   * @throws trainer_journal; trainer_lease_lost when a later writer has been here
   */
  static async open(directory: string, run: string, token: number): Promise<Journal> {
    await mkdir(join(directory, 'payloads'), { recursive: true });
    const path = join(directory, NAME);
    const file = await open(path, 'a');
    try {
      await syncDirectory(directory);
      const journal = new Journal(directory, token, file);
      const text = await readFile(path, 'utf8');
      const whole = text.slice(0, text.lastIndexOf('\n') + 1);
      if (whole.length < text.length) await truncate(path, Buffer.byteLength(whole));
      for (const [index, line] of whole.split('\n').slice(0, -1).entries()) {
        journal.#take(line, `${path}:${index + 1}`, run);
      }
      return journal;
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  #take(line: string, where: string, run: string): void {
    let entry: JournalEntry;
    try {
      entry = entryReader.read(JSON.parse(line), 'a line of the journal');
      this.log.add(entry);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new ConsortError('trainer_journal', [where, reason], { cause: error });
    }
    if (entry.token > this.#token) throw new ConsortError('trainer_lease_lost', [run, this.#token]);
  }

  /** On disk when it resolves. */
  async append(entry: Unsigned<JournalEntry>): Promise<void> {
    const signed: JournalEntry = { ...entry, token: this.#token };
    await this.#file.appendFile(`${JSON.stringify(signed)}\n`);
    await this.#file.datasync();
    this.log.add(signed);
  }

  /** Keeps the datums of a step, on disk when it resolves; gives the hash of each chunk. */
  async keep(step: number, chunks: readonly (readonly WireDatum[])[]): Promise<string[]> {
    const path = this.#payloadPath(step);
    const file = await open(`${path}.new`, 'w');
    try {
      await file.writeFile(JSON.stringify(chunks));
      await file.datasync();
    } finally {
      await file.close();
    }
    await rename(`${path}.new`, path);
    await syncDirectory(join(this.#directory, 'payloads'));
    return chunks.map(hashOf);
  }

  /** The chunks of a step as they were sent. @throws trainer_journal when they are not those of the entry */
  async payload(step: number, hashes: readonly string[]): Promise<WireDatum[][]> {
    const path = this.#payloadPath(step);
    try {
      const chunks = payloadReader.read(JSON.parse(await readFile(path, 'utf8')), 'a payload');
      if (chunks.length !== hashes.length || chunks.some((chunk, index) => hashOf(chunk) !== hashes[index])) {
        throw new RangeError('its hashes are not those of the journal');
      }
      return chunks;
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new ConsortError('trainer_journal', [path, reason], { cause: error });
    }
  }

  /** Deletes the datums of steps that a saved state covers. */
  async forgetCovered(): Promise<void> {
    await Promise.all(this.log.takeCovered().map((step) => rm(this.#payloadPath(step), { force: true })));
  }

  #payloadPath(step: number): string {
    return join(this.#directory, 'payloads', `${String(step).padStart(8, '0')}.json`);
  }

  async close(): Promise<void> {
    await this.#file.close();
  }
}

const hashOf = (chunk: unknown): string => createHash('sha256').update(JSON.stringify(chunk)).digest('hex');

/** Without it a new file's name may not survive a power cut. */
async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, 'r');
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}
