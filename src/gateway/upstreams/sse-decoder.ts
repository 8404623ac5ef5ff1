/**
 * Server-sent events, decoded as the WHATWG HTML standard says (section 9.2): any of CR, LF and CRLF ends a line,
 * a comment starts with a colon, one space after the colon of a field is dropped, an event ends at an empty line,
 * and an event that the stream's end cuts off is discarded. Only `data` matters here; events without any are
 * dropped. Bytes may be split anywhere, also inside a character. Each character is looked at once, however small
 * the pieces are.
 */

/** Longest event kept while it is incomplete; a stream that never ends an event is refused, not buffered. */
export const MAX_EVENT_CHARS = 4 * 1024 * 1024;

const LF = 10;
const CR = 13;
const SPACE = 32;
const COLON = 58;

export class SseDecoder {
  readonly #text = new TextDecoder('utf-8');
  readonly #onData: (data: string) => void;
  /** The beginning of a line whose end has not come. */
  #rest = '';
  #data: string | undefined;
  /** The last character was a CR: an LF that follows belongs to it. */
  #afterCr = false;

  /** @param onData called with the data of each event, lines joined by LF */
  constructor(onData: (data: string) => void) {
    this.#onData = onData;
  }

  /** @throws RangeError when an incomplete event grows beyond {@link MAX_EVENT_CHARS} */
  push(chunk: Uint8Array): void {
    const text = this.#text.decode(chunk, { stream: true });
    if (text === '') return;
    let start = this.#afterCr && text.charCodeAt(0) === LF ? 1 : 0;
    this.#afterCr = text.endsWith('\r');
    const hasCr = text.includes('\r');
    for (;;) {
      const end = hasCr ? lineEnd(text, start) : text.indexOf('\n', start);
      if (end === -1) break;
      if (this.#rest === '') this.#line(text, start, end);
      else {
        const line = this.#rest + text.slice(start, end);
        this.#rest = '';
        this.#line(line, 0, line.length);
      }
      start = text.charCodeAt(end) === CR && text.charCodeAt(end + 1) === LF ? end + 2 : end + 1;
    }
    if (start < text.length) this.#rest += start === 0 ? text : text.slice(start);
    if (this.#rest.length + (this.#data?.length ?? 0) > MAX_EVENT_CHARS) {
      throw new RangeError(`an event of more than ${MAX_EVENT_CHARS} characters`);
    }
  }

  #line(text: string, start: number, end: number): void {
    if (start === end) {
      const data = this.#data;
      this.#data = undefined;
      if (data !== undefined && data !== '') this.#onData(data);
      return;
    }
    if (!text.startsWith('data', start)) return;
    let value = start + 4;
    if (value !== end) {
      if (text.charCodeAt(value) !== COLON) return;
      value++;
      if (text.charCodeAt(value) === SPACE) value++;
    }
    const data = text.slice(value, end);
    this.#data = this.#data === undefined ? data : `${this.#data}\n${data}`;
  }
}

function lineEnd(text: string, start: number): number {
  for (let i = start; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === LF || code === CR) return i;
  }
  return -1;
}
