/**
 * One event stream to a client: headers at once, heartbeats through silence, one write for all events of a tick,
 * and a promise to wait on when the client reads slower than we write.
 */
import type { ServerResponse } from 'node:http';

export interface SseOptions {
  readonly headers: Readonly<Record<string, string>>;
  readonly heartbeatMs: number;
}

/** A comment: every client skips it, and an event-level idle timer is reset by the blank line. */
const HEARTBEAT = ': keep-alive\n\n';

export class SseStream {
  readonly #response: ServerResponse;
  readonly #heartbeat: NodeJS.Timeout;
  #pending = '';
  #scheduled = false;
  #drained: Promise<void> | undefined;

  constructor(response: ServerResponse, { headers, heartbeatMs }: SseOptions) {
    this.#response = response;
    response.writeHead(200, {
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache, no-transform',
      'x-accel-buffering': 'no',
      ...headers,
    });
    response.flushHeaders();
    this.#heartbeat = setInterval(() => this.#write(HEARTBEAT), heartbeatMs);
  }

  /** Sends one event. The returned promise, if any, settles when the client has caught up or left. */
  send(data: string): void | Promise<void> {
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
    if (this.#response.destroyed) return;
    this.#response.end(this.#pending);
    this.#pending = '';
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
    if (response.write(text) || this.#drained) return;
    this.#drained = new Promise((resolve) => {
      const settle = () => {
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
