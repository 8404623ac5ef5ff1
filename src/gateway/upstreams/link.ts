/**
 * One connection of a pool that knows whether its socket has been used before. A server may close a kept connection in
 * the very moment in which the next request goes out on it; only then is a failure no sign of trouble.
 */
import { Client, type Dispatcher } from 'undici';

/** A handler that wants to know which connection its request got. */
export interface Travelling extends Dispatcher.DispatchHandler {
  link: Link | undefined;
}

export class Link extends Client {
  #sent = 0;

  constructor(origin: URL, options: Client.Options) {
    super(origin, options);
    this.on('connect', () => (this.#sent = 0));
  }

  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    if ('link' in handler) handler.link = this;
    return super.dispatch(options, handler);
  }

  /** To be called when a request starts: whether another one went over the same socket before. */
  begin(): boolean {
    return this.#sent++ > 0;
  }
}

/** How undici says that the other side has closed the connection. */
const CLOSED = ['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE'];

export function isClosed(error: Error): boolean {
  return 'code' in error && typeof error.code === 'string' && CLOSED.includes(error.code);
}
