/** Clients of the system whose policy learns: whole and streamed answers by turns, each to its end. */
import { setTimeout as sleep } from 'node:timers/promises';
import { request } from 'undici';
import type { TaskRow } from '../../src/contract/task.ts';
import type { Served } from '../../test/support/serve.ts';

const CLIENTS = 2;
/** Between two requests of a client, so that the learner has a machine to work on. */
const PAUSE_MS = 150;

export class Traffic {
  answered = 0;
  /** What went wrong, in words. */
  readonly failed: string[] = [];
  readonly #gateway: Served;
  readonly #system: string;
  readonly #rows: readonly TaskRow[];
  readonly #work: Promise<unknown>;
  #isOver = false;
  #sent = 0;

  constructor(gateway: Served, system: string, rows: readonly TaskRow[]) {
    this.#gateway = gateway;
    this.#system = system;
    this.#rows = rows;
    this.#work = Promise.all(Array.from({ length: CLIENTS }, () => this.#client()));
  }

  async end(): Promise<void> {
    this.#isOver = true;
    await this.#work;
  }

  async #client(): Promise<void> {
    while (!this.#isOver) {
      await this.#ask(this.#sent++);
      await sleep(PAUSE_MS);
    }
  }

  async #ask(index: number): Promise<void> {
    const { prompt, gold, verifier } = this.#rows[index % this.#rows.length] ?? {};
    const stream = index % 2 === 0;
    const messages = [{ role: 'user', content: prompt }];
    const body = { model: `consort/${this.#system}`, stream, messages, consort: { gold, verifier } };
    try {
      const response = await request(`${this.#gateway.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });
      const text = await response.body.text();
      const isWhole = stream
        ? text.endsWith('data: [DONE]\n\n') && !text.includes('"error"')
        : text.endsWith('}');
      if (response.statusCode === 200 && isWhole) this.answered += 1;
      else this.failed.push(`HTTP ${response.statusCode}: ${text.slice(-300)}`);
    } catch (error) {
      this.failed.push(String(error));
    }
  }
}
