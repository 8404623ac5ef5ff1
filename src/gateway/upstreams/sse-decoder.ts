/**
 * Server-sent events, decoded as the WHATWG HTML standard says (section 9.2): any of CR, LF and CRLF ends a line,
 * a comment starts with a colon, one space after the colon of a field is dropped, an event ends at an empty line,
 * and an event that the stream's end cuts off is discarded. Only `data` matters here; events without any are
 * dropped. Bytes may be split anywhere, also inside a character.
 */

/** Longest event kept while it is incomplete; a stream that never ends an event is refused, not buffered. */
export const MAX_EVENT_CHARS = 4 * 1024 * 1024;

export class SseDecoder {
  readonly #text = new TextDecoder('utf-8');
  readonly #onData: (data: string) => void;
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
    let text = this.#text.decode(chunk, { stream: true });
    if (text === '') return;
    if (this.#afterCr && text.charCodeAt(0) === 10) text = text.slice(1);
    this.#afterCr = text.endsWith('\r');
    if (this.#rest !== '') text = this.#rest + text;
    const hasCr = text.includes('\r');
    let start = 0;
    for (;;) {
      const end = hasCr ? lineEnd(text, start) : text.indexOf('\n', start);
      if (end === -1) break;
      this.#line(text, start, end);
      start = text.charCodeAt(end) === 13 && text.charCodeAt(end + 1) === 10 ? end + 2 : end + 1;
    }
    this.#rest = start === 0 ? text : text.slice(start);
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
      if (text.charCodeAt(value) !== 58) return;
      value++;
      if (text.charCodeAt(value) === 32 && value < end) value++;
    }
    const data = text.slice(value, end);
    this.#data = this.#data === undefined ? data : `${this.#data}\n${data}`;
  }
}

function lineEnd(text: string, start: number): number {
  for (let i = start; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === 10 || code === 13) return i;
  }
  return -1;
}
