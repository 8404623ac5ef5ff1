/**
 * A session keeps a run's model alive: servers unload the models of a session that was silent for some minutes, and
 * unsaved weights are lost. So the heartbeat has a timer of its own and never waits behind training.
 */
import { ConsortError } from '../../contract/errors.ts';
import { statusError, type TrainerHttp } from './http.ts';
import { Reader, SessionReply } from './wire.ts';

const HEARTBEAT_MS = 10_000;
const sessionReader = new Reader(SessionReply);

export class Session {
  readonly id: string;
  readonly #http: TrainerHttp;
  readonly #stop = new AbortController();
  readonly #timer: NodeJS.Timeout;
  #isBeating = false;
  #isLost = false;

  private constructor(http: TrainerHttp, id: string, everyMs: number) {
    this.#http = http;
    this.id = id;
    this.#timer = setInterval(() => {
      void this.#quietBeat();
    }, everyMs);
    this.#timer.unref();
  }

  static async open(http: TrainerHttp, tag: string, everyMs = HEARTBEAT_MS): Promise<Session> {
    const body = { tags: [tag], user_metadata: {}, sdk_version: 'consort', type: 'create_session' };
    const reply = sessionReader.read(await http.ask('create_session', body), 'create_session');
    if (reply.error_message)
      throw new ConsortError('trainer_failed', ['create_session', reply.error_message]);
    return new Session(http, reply.session_id, everyMs);
  }

  /** Takes up the session of a process that died. Undefined when the server has given it up. */
  static async resume(http: TrainerHttp, id: string, everyMs = HEARTBEAT_MS): Promise<Session | undefined> {
    const session = new Session(http, id, everyMs);
    try {
      await session.#heartbeat();
      return session;
    } catch (error) {
      session.close();
      if (ConsortError.is(error) && error.code === 'trainer_lost') return undefined;
      throw error;
    }
  }

  /** Whether the server has said that it does not know the session any more. */
  get isLost(): boolean {
    return this.#isLost;
  }

  async #heartbeat(): Promise<void> {
    const body = Buffer.from(JSON.stringify({ session_id: this.id, type: 'session_heartbeat' }));
    const { signal } = this.#stop;
    const reply = await this.#http.exchange({ method: 'POST', path: 'session_heartbeat', body, signal });
    if (reply.status !== 200) throw statusError(reply, 'session_heartbeat');
  }

  async #quietBeat(): Promise<void> {
    // One at a time: a slow server must not gather them.
    if (this.#isBeating) return;
    this.#isBeating = true;
    try {
      await this.#heartbeat();
    } catch (error) {
      // A server that is away will be missed by the next operation; only its "no" is remembered.
      if (ConsortError.is(error) && error.code === 'trainer_lost') this.#isLost = true;
    } finally {
      this.#isBeating = false;
    }
  }

  close(): void {
    clearInterval(this.#timer);
    this.#stop.abort();
  }
}
