/**
 * Fetching a file that a trainer exported, from a server that may be wrong or hostile. Redirects are followed by hand,
 * to allowed hosts only, and without the key when they lead elsewhere. Bytes are counted as they come.
 */
import { createHash } from 'node:crypto';
import { open } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import Type from 'typebox';
import { request } from 'undici';
import { ConsortError } from '../../contract/errors.ts';
import { pauseAfter } from './http.ts';
import { parseJson, Reader } from './wire.ts';

export interface DownloadOptions {
  readonly url: string;
  readonly apiKey?: string;
  /** `host` or `host:port` that a redirect may lead to, besides the server itself. */
  readonly allowedHosts: readonly string[];
  readonly maxBytes: number;
  /** For the whole of it, retries included. */
  readonly timeoutMs: number;
  /** First pause while the server prepares the file. */
  readonly pauseMs: number;
  readonly signal?: AbortSignal | undefined;
}

export interface Downloaded {
  /** Lower-case hex SHA-256. */
  readonly sha256: string;
  readonly bytes: number;
}

const MAX_REDIRECTS = 4;
const MAX_JSON_BYTES = 65_536;
const REDIRECTS = [301, 302, 303, 307, 308];
/** 425: the checkpoint is still being written; 503: the service packs it. */
const PREPARING = [425, 429, 502, 503, 504];

/** Hosted servers may answer with where the file is. */
const linkReader = new Reader(Type.Object({ url: Type.String() }));

/** @throws trainer_archive, trainer_status, trainer_timeout, trainer_unreachable */
export async function download(options: DownloadOptions, path: string): Promise<Downloaded> {
  const { timeoutMs, pauseMs } = options;
  const timer = AbortSignal.timeout(timeoutMs);
  const signal = options.signal ? AbortSignal.any([timer, options.signal]) : timer;
  try {
    for (let attempt = 0; ; attempt++) {
      const done = await follow(options, path, signal);
      if (done) return done;
      await sleep(pauseAfter(pauseMs, attempt), undefined, { signal });
    }
  } catch (error) {
    if (ConsortError.is(error)) throw error;
    if (options.signal?.aborted) throw new ConsortError('shutting_down', [], { cause: error });
    if (timer.aborted) throw new ConsortError('trainer_timeout', ['archive', timeoutMs], { cause: error });
    const reason = error instanceof Error ? error.message : String(error);
    throw new ConsortError('trainer_unreachable', [reason], { cause: error });
  }
}

/** The file, or nothing while it is being prepared. */
async function follow(options: DownloadOptions, path: string, signal: AbortSignal) {
  const home = new URL(options.url);
  let url = home;
  for (let hop = 0; hop <= MAX_REDIRECTS; hop++) {
    const { apiKey } = options;
    const isHome = url.origin === home.origin;
    const reply = await request(url, {
      method: 'GET',
      headers:
        isHome && apiKey !== undefined ? { 'x-api-key': apiKey, authorization: `Bearer ${apiKey}` } : {},
      headersTimeout: 0,
      bodyTimeout: 0,
      signal,
    });
    const { statusCode: status, headers, body } = reply;
    if (status === 200) {
      const type = String(headers['content-type'] ?? '');
      if (!type.includes('json')) return write(body, path, options.maxBytes);
      const link = linkReader.read(parseJson(await textOf(body), 'archive'), 'archive');
      url = allowed(link.url, url, options);
      continue;
    }
    const text = await textOf(body);
    if (PREPARING.includes(status)) return undefined;
    if (!REDIRECTS.includes(status)) throw new ConsortError('trainer_status', [status, 'archive', text]);
    url = allowed(String(headers['location'] ?? ''), url, options);
  }
  throw new ConsortError('trainer_archive', [`more than ${MAX_REDIRECTS} redirects`]);
}

function allowed(location: string, from: URL, { url, allowedHosts }: DownloadOptions): URL {
  const target = URL.parse(location, from.href);
  if (!target || !['http:', 'https:'].includes(target.protocol)) {
    throw new ConsortError('trainer_archive', [`a redirect to ${location || 'nowhere'}`]);
  }
  const home = new URL(url);
  if (target.origin === home.origin) return target;
  // A downgrade would show a signed address to everybody on the way.
  if (home.protocol === 'https:' && target.protocol === 'http:') {
    throw new ConsortError('trainer_archive', [`a redirect from https to ${target.origin}`]);
  }
  if (!allowedHosts.includes(target.host)) {
    throw new ConsortError('trainer_archive', [`a redirect to ${target.host}, which is not an allowed host`]);
  }
  return target;
}

async function textOf(body: AsyncIterable<Buffer>): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > MAX_JSON_BYTES) break;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8').slice(0, 2_000);
}

async function write(body: AsyncIterable<Buffer>, path: string, maxBytes: number): Promise<Downloaded> {
  const hash = createHash('sha256');
  let bytes = 0;
  await using file = await open(path, 'w', 0o600);
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > maxBytes) throw new ConsortError('trainer_archive', [`over ${maxBytes} bytes`]);
    hash.update(chunk);
    await file.writeFile(chunk);
  }
  await file.datasync();
  return { sha256: hash.digest('hex'), bytes };
}
