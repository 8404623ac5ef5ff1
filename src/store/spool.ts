/**
 * The spool: what the gateway has to remember, on its way into the ledger. An entry is in the kernel's hands when
 * `append` returns, before the last byte of its response leaves, so a killed process loses nothing: the next one
 * finds the files and replays them. There is no fsync: a power cut may cost the last moments.
 *
 * A loop pushes batches into the ledger and starts over, with back-off, while the store is away; entries that no
 * longer fit into memory are then read back from the files. An entry can reach the ledger twice (a crash between
 * the store's answer and the deletion of the file); the ledger tells outcomes apart by their id.
 */
import { ConsortError } from '../contract/errors.ts';
import type { Outcome } from '../contract/outcome.ts';
import type { Ledger, LedgerEntry } from '../contract/store.ts';
import { decodeLine, encodeLine } from './entry.ts';
import { type Segment, SpoolFiles, splitLines } from './spool-files.ts';
import { TurnGroup } from './turn-group.ts';

const BATCH_ENTRIES = 256;
const BATCH_BYTES = 1_048_576;
/** Entries kept in memory for the loop; beyond it they are read back. */
const MEMORY_BYTES = 8_388_608;
/** A file that is settled down to its last line is emptied when it has at least these bytes. */
const REWIND_BYTES = 65_536;
/** How long a batch waits for company: the threads behind are woken, and a transaction made, once for all of it. */
const LINGER_MS = 20;
const FIRST_RETRY_MS = 50;
const LAST_RETRY_MS = 5_000;

/** Why an entry is lost: no room, the disk failed, the ledger refuses it for good, or the spool is closed. */
export type DropReason = 'full' | 'disk' | 'refused' | 'closed';

export interface SpoolOptions {
  readonly directory: string;
  /** Bound of the files; an entry that does not fit is dropped. */
  readonly maxBytes: number;
  /** Names this process to people who look into the directory. */
  readonly instance: string;
  readonly ledger: Pick<Ledger, 'append'>;
  readonly onDrop?: (reason: DropReason, entry: LedgerEntry) => void;
  readonly onRetry?: (error: ConsortError, delayMs: number) => void;
}

/** Live figures for metrics. */
export interface SpoolCounters {
  /** Entries of this process that the ledger does not have yet. */
  readonly pending: number;
  /** Bytes of files. */
  readonly bytes: number;
  readonly dropped: number;
  /** Entries of dead processes that were pushed into the ledger. */
  readonly replayed: number;
  /** Lines that could not be read: torn by a crash, or of a newer version. */
  readonly torn: number;
}

interface Position {
  readonly segment: Segment;
  readonly offset: number;
}

interface Batch {
  readonly entries: readonly LedgerEntry[];
  /** Lines, readable or not. */
  readonly lines: number;
  /** Where the next batch begins. */
  readonly end: Position;
}

export class Spool {
  readonly #options: SpoolOptions;
  readonly #files: SpoolFiles;
  readonly #places = new Map<string, Position & { readonly length: number }>();
  readonly #idle: (() => void)[] = [];
  #memory: { readonly entry: LedgerEntry; readonly bytes: number; readonly end: Position }[] = [];
  #memoryBytes = 0;
  /** Entries of this turn of the event loop that wait for their common write. */
  readonly #turn = new TurnGroup<LedgerEntry, boolean>((entries) => this.#appendAll(entries));
  /** Whether the loop reads files because memory does not hold everything that is still to be pushed. */
  #isBehind: boolean;
  /** Up to here the ledger has everything. */
  #settled: Position | undefined;
  #pending = 0;
  #dropped = 0;
  #replayed = 0;
  #torn = 0;
  #retryMs = FIRST_RETRY_MS;
  /** How many entries to push one by one, to find the one that the ledger refuses. */
  #single = 0;
  #isClosing = false;
  #isStopped = false;
  #wake: () => void = () => {};

  /** Opens a spool of this process and starts to push, first what dead processes have left. */
  static open(options: SpoolOptions): Spool {
    try {
      return new Spool(options);
    } catch (error) {
      const detail = error instanceof Error ? error.message : String(error);
      throw new ConsortError('file_unreadable', [options.directory, detail], { cause: error });
    }
  }

  private constructor(options: SpoolOptions) {
    this.#options = options;
    const segmentBytes = Math.min(4_194_304, Math.ceil(options.maxBytes / 8));
    this.#files = new SpoolFiles(options.directory, options.instance, segmentBytes);
    this.#isBehind = this.#files.first !== undefined;
    void this.#run();
  }

  get counters(): SpoolCounters {
    return {
      pending: this.#pending,
      bytes: this.#files.bytes,
      dropped: this.#dropped,
      replayed: this.#replayed,
      torn: this.#torn,
    };
  }

  /** Takes an entry; false when it had to be dropped. */
  append(entry: LedgerEntry): boolean {
    return this.#appendAll([entry])[0] === true;
  }

  /**
   * Takes an entry together with all others of this turn of the event loop, in one write: a system call costs as much
   * for many as for one. Resolves when it is in the kernel's hands, to false when it had to be dropped.
   */
  appendSoon(entry: LedgerEntry): Promise<boolean> {
    return this.#turn.add(entry);
  }

  #appendAll(entries: readonly LedgerEntry[]): boolean[] {
    let room = this.#options.maxBytes - this.#files.bytes;
    const lines: { entry: LedgerEntry; text: string; bytes: number }[] = [];
    const taken = entries.map((entry) => {
      if (this.#isClosing) return this.#drop('closed', entry);
      const text = encodeLine(entry);
      const bytes = Buffer.byteLength(text);
      if (bytes > room) return this.#drop('full', entry);
      room -= bytes;
      lines.push({ entry, text, bytes });
      return true;
    });
    if (lines.length === 0) return taken;
    let place: Position;
    try {
      place = this.#files.write(Buffer.from(lines.map(({ text }) => text).join('')));
    } catch {
      for (const { entry } of lines) this.#drop('disk', entry);
      return entries.map(() => false);
    }
    const { segment } = place;
    let { offset } = place;
    for (const { entry, bytes } of lines) {
      if (entry.kind === 'outcome') this.#places.set(entry.outcome.id, { segment, offset, length: bytes });
      offset += bytes;
      if (!this.#isBehind) this.#keep(entry, bytes, { segment, offset });
    }
    this.#pending += lines.length;
    this.#wake();
    return taken;
  }

  /** An outcome that this process has appended and the ledger does not have yet. Ask here first, then the ledger. */
  async find(outcome: string): Promise<Outcome | undefined> {
    const place = this.#places.get(outcome);
    if (!place) return undefined;
    const kept = this.#memory.find(({ entry }) => entry.kind === 'outcome' && entry.outcome.id === outcome);
    const entry = kept?.entry ?? (await this.#readBack(place));
    return entry?.kind === 'outcome' && entry.outcome.id === outcome ? entry.outcome : undefined;
  }

  /** Resolves when the ledger has everything, or the spool is closed. */
  idle(): Promise<void> {
    return new Promise((resolve) => {
      if (this.#isIdle || this.#isStopped) resolve();
      else this.#idle.push(resolve);
    });
  }

  /** Takes nothing more and pushes for at most `drainMs`; what is left then is the next process's to replay. */
  async close(drainMs: number): Promise<void> {
    if (this.#isClosing) return this.idle();
    this.#turn.flush();
    this.#isClosing = true;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => (timer = setTimeout(resolve, drainMs)));
    await Promise.race([this.idle(), late]);
    clearTimeout(timer);
    const isSettled = this.#isIdle;
    this.#isStopped = true;
    this.#files.close(isSettled);
    this.#wake();
    this.#announceIdle();
  }

  get #isIdle(): boolean {
    return !this.#isBehind && this.#memory.length === 0;
  }

  #drop(reason: DropReason, entry: LedgerEntry): false {
    this.#dropped += 1;
    this.#options.onDrop?.(reason, entry);
    return false;
  }

  #keep(entry: LedgerEntry, bytes: number, end: Position): void {
    this.#memory.push({ entry, bytes, end });
    this.#memoryBytes += bytes;
    if (this.#memoryBytes <= MEMORY_BYTES) return;
    this.#isBehind = true;
    this.#memory = [];
    this.#memoryBytes = 0;
  }

  async #readBack({
    segment,
    offset,
    length,
  }: Position & { length: number }): Promise<LedgerEntry | undefined> {
    try {
      const { text } = await this.#files.read(segment, offset, length);
      return decodeLine(text.toString());
    } catch {
      // The segment was settled and deleted meanwhile: the ledger has the outcome.
      return undefined;
    }
  }

  async #run(): Promise<void> {
    while (!this.#isStopped) {
      try {
        if (this.#isIdle) await this.#rest();
        await this.#gather();
        const batch = await this.#next();
        if (batch) await this.#push(batch);
      } catch (error) {
        await this.#pause(ConsortError.from(error));
      }
    }
  }

  /** Waits for an entry. */
  async #rest(): Promise<void> {
    if (this.#files.rewind(REWIND_BYTES)) this.#settled = undefined;
    this.#announceIdle();
    await new Promise<void>((resolve) => (this.#wake = resolve));
    this.#wake = () => {};
  }

  /** Lets a batch grow that is far from full. */
  async #gather(): Promise<void> {
    if (this.#isClosing || this.#isBehind || this.#single > 0 || this.#memory.length >= BATCH_ENTRIES) return;
    await new Promise((resolve) => setTimeout(resolve, LINGER_MS));
  }

  #announceIdle(): void {
    for (const resolve of this.#idle.splice(0)) resolve();
  }

  async #push(batch: Batch): Promise<void> {
    try {
      if (batch.entries.length > 0) await this.#options.ledger.append(batch.entries);
    } catch (error) {
      const reason = ConsortError.from(error);
      if (reason.retryable) throw reason;
      if (batch.lines > 1) {
        this.#single = batch.lines;
        return;
      }
      for (const entry of batch.entries) this.#drop('refused', entry);
    }
    this.#retryMs = FIRST_RETRY_MS;
    if (!this.#isStopped) this.#settle(batch);
  }

  #settle({ entries, lines, end }: Batch): void {
    this.#single = Math.max(0, this.#single - lines);
    if (!this.#isBehind) {
      for (const { bytes } of this.#memory.splice(0, lines)) this.#memoryBytes -= bytes;
    }
    for (const entry of entries) if (entry.kind === 'outcome') this.#places.delete(entry.outcome.id);
    if (end.segment.isAdopted) this.#replayed += entries.length;
    else this.#pending -= lines;
    this.#torn += lines - entries.length;
    this.#settled = end;
    this.#files.settle(end.segment, end.offset);
  }

  async #pause(reason: ConsortError): Promise<void> {
    const delayMs = this.#retryMs;
    this.#retryMs = Math.min(2 * delayMs, LAST_RETRY_MS);
    this.#options.onRetry?.(reason, delayMs);
    if (this.#isStopped) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, delayMs);
      this.#wake = () => {
        if (!this.#isStopped) return;
        clearTimeout(timer);
        resolve();
      };
    });
    this.#wake = () => {};
  }

  async #next(): Promise<Batch | undefined> {
    return this.#isBehind ? this.#fromFiles() : this.#fromMemory();
  }

  #fromMemory(): Batch | undefined {
    const most = this.#single > 0 ? 1 : BATCH_ENTRIES;
    let bytes = 0;
    let count = 0;
    while (count < Math.min(most, this.#memory.length)) {
      bytes += this.#memory[count]?.bytes ?? 0;
      if (count > 0 && bytes > BATCH_BYTES) break;
      count += 1;
    }
    const last = this.#memory[count - 1];
    if (!last) return undefined;
    return { entries: this.#memory.slice(0, count).map(({ entry }) => entry), lines: count, end: last.end };
  }

  async #fromFiles(): Promise<Batch | undefined> {
    const from = this.#unsettled();
    if (!from) {
      this.#isBehind = false;
      return undefined;
    }
    const { segment, offset } = from;
    const { text, isTorn } = await this.#files.read(segment, offset, BATCH_BYTES);
    const { lines, bytes } = splitLines(text, this.#single > 0 ? 1 : BATCH_ENTRIES);
    const end = { segment, offset: isTorn ? segment.bytes : offset + bytes };
    const entries = lines.flatMap((line) => decodeLine(line) ?? []);
    return { entries, lines: lines.length, end };
  }

  /** Where the oldest line that is not in the ledger begins. */
  #unsettled(): Position | undefined {
    const { first } = this.#files;
    let position = this.#settled ?? (first && { segment: first, offset: 0 });
    while (position && position.offset >= position.segment.bytes) {
      const segment = this.#files.after(position.segment);
      position = segment && { segment, offset: 0 };
    }
    return position;
  }
}
