/**
 * The files of one spool: segments of JSON lines. The newest is written to; the reader walks through all of them
 * from the oldest, and a segment that is read and settled is deleted. Positions are byte offsets.
 */
import {
  closeSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { closedName, isOrphan, ownName } from './spool-owner.ts';

export interface Segment {
  readonly path: string;
  /** Left by a process that died. */
  readonly isAdopted: boolean;
  bytes: number;
}

const ENDING = '.ndjson';

export class SpoolFiles {
  readonly #root: string;
  readonly #name: string;
  readonly #segmentBytes: number;
  readonly #segments: Segment[] = [];
  #count = 0;
  #bytes = 0;
  #active: { readonly segment: Segment; readonly descriptor: number } | undefined;

  /** Makes the spool's directory and moves the files of dead processes into it. */
  constructor(root: string, instance: string, segmentBytes: number) {
    this.#root = root;
    this.#name = ownName(instance);
    this.#segmentBytes = segmentBytes;
    mkdirSync(this.#directory, { recursive: true });
    for (const name of readdirSync(root)) {
      if (name !== this.#name && isOrphan(name)) this.#adopt(join(root, name));
    }
  }

  get #directory(): string {
    return join(this.#root, this.#name);
  }

  /** Bytes on disk. */
  get bytes(): number {
    return this.#bytes;
  }

  /** The oldest segment, or nothing when all is settled. */
  get first(): Segment | undefined {
    return this.#segments[0];
  }

  /** The next younger segment; after one that is deleted, the oldest. */
  after(segment: Segment): Segment | undefined {
    return this.#segments[this.#segments.indexOf(segment) + 1];
  }

  /**
   * Hands whole lines to the kernel and gives where they are. When the disk is full or fails, what was written of
   * them is cut off again, or the segment is left for a new one.
   */
  write(lines: Buffer): { readonly segment: Segment; readonly offset: number } {
    const { segment, descriptor } = this.#writable(lines.length);
    const offset = segment.bytes;
    try {
      let written = 0;
      while (written < lines.length) written += writeSync(descriptor, lines, written);
    } catch (error) {
      this.#cut(segment, descriptor);
      throw error;
    }
    segment.bytes += lines.length;
    this.#bytes += lines.length;
    return { segment, offset };
  }

  #writable(size: number) {
    if (
      this.#active &&
      this.#active.segment.bytes + size > this.#segmentBytes &&
      this.#active.segment.bytes > 0
    ) {
      this.#seal();
    }
    if (!this.#active) {
      const segment = { path: this.#nextPath(), isAdopted: false, bytes: 0 };
      this.#active = { segment, descriptor: openSync(segment.path, 'ax') };
      this.#segments.push(segment);
    }
    return this.#active;
  }

  #cut(segment: Segment, descriptor: number): void {
    try {
      ftruncateSync(descriptor, segment.bytes);
    } catch {
      this.#seal();
    }
  }

  #seal(): void {
    if (this.#active) closeSync(this.#active.descriptor);
    this.#active = undefined;
  }

  /** Reads lines from an offset: as many as fit into `size` bytes, but always a whole one. */
  async read(segment: Segment, offset: number, size: number): Promise<{ text: Buffer; isTorn: boolean }> {
    await using file = await open(segment.path, 'r');
    for (let length = size; ; length *= 2) {
      const wanted = Math.min(length, segment.bytes - offset);
      const { buffer, bytesRead } = await file.read(Buffer.alloc(wanted), 0, wanted, offset);
      const end = buffer.lastIndexOf(0x0a, bytesRead - 1) + 1;
      if (end > 0) return { text: buffer.subarray(0, end), isTorn: false };
      if (bytesRead < length) return { text: buffer.subarray(0, bytesRead), isTorn: true };
    }
  }

  /** Everything before the offset of the segment is in the store. */
  settle(segment: Segment, offset: number): void {
    while (this.first && this.first !== segment) this.#remove(this.first);
    if (this.first !== segment || offset < segment.bytes) return;
    if (this.#active?.segment !== segment) this.#remove(segment);
  }

  /** Empties the active segment if it has grown; only when all of it is settled. */
  rewind(atLeastBytes: number): boolean {
    if (!this.#active || this.#active.segment.bytes < atLeastBytes) return false;
    ftruncateSync(this.#active.descriptor, 0);
    this.#bytes -= this.#active.segment.bytes;
    this.#active.segment.bytes = 0;
    return true;
  }

  /** Leaves nothing behind when all is settled, else a directory that the next process adopts. */
  close(isSettled: boolean): void {
    this.#seal();
    if (!isSettled) return renameSync(this.#directory, join(this.#root, closedName(this.#name)));
    while (this.first) this.#remove(this.first);
    rmdirSync(this.#directory);
  }

  #remove(segment: Segment): void {
    if (this.#active?.segment === segment) this.#seal();
    rmSync(segment.path, { force: true });
    this.#segments.splice(this.#segments.indexOf(segment), 1);
    this.#bytes -= segment.bytes;
  }

  /** A file is renamed by one process only: whoever comes second finds it gone. */
  #adopt(directory: string): void {
    for (const name of filesOf(directory).toSorted()) {
      const path = this.#nextPath();
      if (!succeeds(() => renameSync(join(directory, name), path))) continue;
      const bytes = statSync(path).size;
      this.#segments.push({ path, isAdopted: true, bytes });
      this.#bytes += bytes;
    }
    succeeds(() => rmdirSync(directory));
  }

  #nextPath(): string {
    this.#count += 1;
    return join(this.#directory, `${String(this.#count).padStart(9, '0')}${ENDING}`);
  }
}

function filesOf(directory: string): string[] {
  let names: string[] = [];
  succeeds(() => (names = readdirSync(directory)));
  return names.filter((name) => name.endsWith(ENDING));
}

/** Runs what another process may have done already; anything but a missing file or a full directory is thrown. */
function succeeds(action: () => void): boolean {
  try {
    action();
    return true;
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code === 'ENOENT' || code === 'ENOTEMPTY' || code === 'ENOTDIR') return false;
    throw error;
  }
}

/** The first lines of a text, at most `most`, and the bytes that they take. */
export function splitLines(text: Buffer, most: number): { lines: string[]; bytes: number } {
  const lines: string[] = [];
  let bytes = 0;
  while (lines.length < most && bytes < text.length) {
    const end = text.indexOf(0x0a, bytes);
    const stop = end < 0 ? text.length : end;
    lines.push(text.toString('utf8', bytes, stop));
    bytes = end < 0 ? stop : end + 1;
  }
  return { lines, bytes };
}
