/**
 * One event stream to a client: headers at once, heartbeats through silence, one write for all events of a tick,
 * and a promise to wait on when the client reads slower than we write. A client that takes nothing for too long is cut
 * off: it would hold an upstream and our memory for ever.
 */
import type { ServerResponse } from 'node:http';

export interface SseOptions {
  readonly headers: Readonly<Record<string, string>>;
  readonly heartbeatMs: number;
  /** How long a client may leave what was written to it unread. */
  readonly stallMs: number;
}

/** A comment: every client skips it, and an event-level idle timer is reset by the blank line. */
const HEARTBEAT = ': keep-alive\n\n';

export class SseStream {
  readonly #response: ServerResponse;
  readonly #heartbeat: NodeJS.Timeout;
  readonly #stallMs: number;
  #pending = '';
  #scheduled = false;
  #drained: Promise<void> | undefined;

  constructor(response: ServerResponse, { headers, heartbeatMs, stallMs }: SseOptions) {
    this.#response = response;
    this.#stallMs = stallMs;
    response.writeHead(200, {
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache, no-transform',
      'x-accel-buffering': 'no',
      ...headers,
    });
    response.flushHeaders();
    this.#heartbeat = setInterval(() => this.#write(HEARTBEAT), heartbeatMs);
  }

  /**
   * Sends one event. The returned promise, if any, settles when the client has caught up or left.
   *
   * @param name of the event, in APIs whose events have names
   */
  send(data: string, name?: string): void | Promise<void> {
    if (this.#response.destroyed) return undefined;
    if (name !== undefined) this.#pending += `event: ${name}\n`;
    this.#pending += data.includes('\n') ? lines(data) : `data: ${data}\n\n`;
    if (!this.#scheduled) {
      // Everything that one upstream read brought becomes one write.
      this.#scheduled = true;
      setImmediate(() => this.#flush());
    }
    return this.#drained;
  }

  end(): void {
    clearInterval(this.#heartbeat);
    const response = this.#response;
    if (response.destroyed) return;
    response.end(this.#pending);
    this.#pending = '';
    const cut = setTimeout(() => response.destroy(), this.#stallMs);
    response.once('close', () => clearTimeout(cut));
  }

  #flush(): void {
    this.#scheduled = false;
    if (this.#pending === '') return;
    const text = this.#pending;
    this.#pending = '';
    this.#heartbeat.refresh();
    this.#write(text);
  }

  #write(text: string): void {
    const response = this.#response;
    if (response.destroyed || response.writableEnded) return;
    // A heartbeat to a client that does not read would only pile up.
    if (this.#drained && text === HEARTBEAT) return;
    if (response.write(text) || this.#drained) return;
    this.#drained = new Promise((resolve) => {
      const cut = setTimeout(() => response.destroy(), this.#stallMs);
      const settle = () => {
        clearTimeout(cut);
        response.off('drain', settle).off('close', settle);
        this.#drained = undefined;
        resolve();
      };
      response.on('drain', settle).on('close', settle);
    });
  }
}

function lines(data: string): string {
  return `${data
    .split('\n')
    .map((line) => `data: ${line}`)
    .join('\n')}\n\n`;
}
