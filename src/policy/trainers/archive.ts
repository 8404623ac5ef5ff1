/**
 * Unpacking what a trainer exported. An archive may hold plain files and folders below one directory, and nothing
 * else: no link, no device, no path that leads out. It is unfolded under a limit, since a few bytes of gzip can stand
 * for very many. SkyRL writes gzip (JAX) and plain tar (others) under the same name, so the bytes tell.
 */
import { once } from 'node:events';
import { createReadStream } from 'node:fs';
import { mkdir, open } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { Parser, type ReadEntry } from 'tar';
import { ConsortError } from '../../contract/errors.ts';

export interface ArchiveLimits {
  /** Of the archive, and of what it unfolds to. */
  readonly maxBytes: number;
  readonly maxFiles: number;
}

export const ARCHIVE_LIMITS: ArchiveLimits = { maxBytes: 2 * 1024 ** 3, maxFiles: 64 };

const GZIP = [0x1f, 0x8b];
const FILES = ['File', 'OldFile', 'ContiguousFile'];

/** Writes the files of an archive below `directory`, which exists. Gives their paths. @throws trainer_archive */
export async function unpack(archive: string, directory: string, limits: ArchiveLimits): Promise<string[]> {
  const paths: string[] = [];
  const writing: Promise<void>[] = [];
  let left = limits.maxBytes;
  const take = (bytes: number) => {
    left -= bytes;
    if (left < 0) throw refused(`it unfolds to more than ${limits.maxBytes} bytes`);
  };
  const parser = new Parser({
    strict: true,
    onReadEntry(entry: ReadEntry) {
      // A failed entry ends the parse: the error of the promise is the one that is thrown.
      const write = writeEntry(entry, directory, take, paths, limits).catch((error: unknown) => {
        parser.abort(error instanceof Error ? error : refused(String(error)));
        throw error;
      });
      write.catch(() => undefined);
      writing.push(write);
    },
  });
  const failed = once(parser, 'error').then(([error]) => Promise.reject(error as Error));
  failed.catch(() => undefined);
  try {
    const ended = once(parser, 'end');
    ended.catch(() => undefined);
    for await (const chunk of await tarOf(archive)) {
      if (!parser.write(chunk as Buffer)) await Promise.race([once(parser, 'drain'), failed]);
      await Promise.race([failed, Promise.resolve()]);
    }
    parser.end();
    await Promise.race([ended, failed]);
    await Promise.all(writing);
  } catch (error) {
    const own = (await Promise.allSettled(writing)).find(({ status }) => status === 'rejected');
    throw asRefusal(own?.status === 'rejected' ? own.reason : error);
  }
  if (paths.length === 0) throw refused('it is empty');
  return paths;
}

const refused = (reason: string, cause?: unknown) =>
  new ConsortError('trainer_archive', [reason], cause === undefined ? {} : { cause });

function asRefusal(error: unknown): ConsortError {
  if (ConsortError.is(error)) return error;
  return refused(error instanceof Error ? error.message : String(error), error);
}

/** The tar inside, whether or not it is compressed. */
async function tarOf(archive: string): Promise<Readable> {
  await using file = await open(archive, 'r');
  const start = Buffer.alloc(GZIP.length);
  await file.read(start, 0, start.length, 0);
  const bytes = createReadStream(archive);
  if (!start.equals(Buffer.from(GZIP))) return bytes;
  const gunzip = createGunzip();
  bytes.on('error', (error) => gunzip.destroy(error));
  return bytes.pipe(gunzip);
}

async function writeEntry(
  entry: ReadEntry,
  directory: string,
  take: (bytes: number) => void,
  paths: string[],
  { maxFiles }: ArchiveLimits,
): Promise<void> {
  if (entry.type === 'Directory') {
    // Nothing is written for one: files make their folders. SkyRL's root has the path `/`.
    entry.resume();
    return;
  }
  const path = safePath(entry.path);
  if (!FILES.includes(entry.type)) throw refused(`${entry.path} is a ${entry.type}`);
  if (path === '') throw refused('a file has no name');
  if (paths.length >= maxFiles) throw refused(`it holds more than ${maxFiles} files`);
  paths.push(path);
  const target = join(directory, path);
  await mkdir(dirname(target), { recursive: true });
  // `wx`: a second entry of the same name must not replace the first.
  await using file = await open(target, 'wx', 0o600);
  for await (const chunk of entry) {
    take(chunk.length);
    await file.writeFile(chunk);
  }
  await file.datasync();
}

/** The path without `.` parts. @throws trainer_archive when it leads out, or might on some system */
function safePath(path: string): string {
  const parts = path.split('/').filter((part) => part !== '' && part !== '.');
  const isUnsafe = path.startsWith('/') || /[\\\0]/.test(path) || parts.includes('..');
  if (isUnsafe) throw refused(`the path ${path} leads out of it`);
  return parts.join('/');
}
