/**
 * Clients of the deployment. Every third request brings a reward: most of them a gold answer with the request, some
 * an opinion that is posted seconds later, to whatever gateway runs then.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { request } from 'undici';
import type { TaskRow } from '../../src/contract/task.ts';
import { simRows } from '../../src/gateway/upstreams/sim/tasks.ts';
import { verifiers } from '../../src/scoring/rewards/index.ts';
import type { Served } from '../../test/support/serve.ts';
import { chance, pick } from './chance.ts';

export const TASK = 'processes';
const CLIENTS = 6;
/** More than six clients can send in a quarter of an hour. */
const MOST_REQUESTS = 200_000;
const LATEST_FEEDBACK_MS = 3_000;
const PATIENCE_MS = 30_000;
const headers = { 'content-type': 'application/json' };

interface Opinion {
  readonly outcome: string;
  readonly value: number;
  readonly dueAt: number;
}

export class Traffic {
  /** Outcome ids of the responses that arrived whole. */
  readonly whole: string[] = [];
  /** Outcome ids whose feedback was accepted. */
  readonly judged: string[] = [];
  sent = 0;
  /** Requests without an answer, because their gateway died. */
  broken = 0;
  /** Statuses other than 200. */
  readonly refused: number[] = [];
  readonly #opinions: Opinion[] = [];
  readonly #rows: readonly TaskRow[];
  readonly #gateways: () => readonly Served[];
  readonly #seed: number;
  #isOver = false;
  #work: Promise<unknown> = Promise.resolve();

  constructor(gateways: () => readonly Served[], seed: number) {
    this.#gateways = gateways;
    this.#seed = seed;
    this.#rows = simRows(undefined, MOST_REQUESTS, seed);
  }

  start(): void {
    const clients = Array.from({ length: CLIENTS }, () => this.#client());
    this.#work = Promise.all([...clients, this.#judge()]);
  }

  /** Asks nothing more; resolves when every answer has come and every opinion was taken. */
  async end(): Promise<void> {
    this.#isOver = true;
    await this.#work;
    const late = performance.now() + PATIENCE_MS;
    while (this.#opinions.length > 0 && performance.now() < late) await this.#post();
  }

  async #client(): Promise<void> {
    while (!this.#isOver) {
      const index = this.sent++;
      const gateway = pick(this.#gateways(), 'gateway', this.#seed, index);
      if (gateway) await this.#ask(gateway, index).catch(() => this.broken++);
      else await sleep(20);
    }
  }

  async #ask(gateway: Served, index: number): Promise<void> {
    const row = this.#rows[index]!;
    const rewarded = index % 3 === 0;
    const later = rewarded && Math.floor(index / 6) % 4 === 0;
    const isStream = !later && chance('stream', this.#seed, index) < 0.5;
    const gold = rewarded && !later && { gold: row.gold, verifier: 'exact-match' };
    const body = JSON.stringify({
      model: index % 2 === 0 ? 'consort/vote' : 'consort/debate',
      stream: isStream,
      messages: [{ role: 'user', content: row.prompt }],
      consort: { task: TASK, ...gold },
    });
    const response = await request(`${gateway.url}/v1/chat/completions`, { method: 'POST', headers, body });
    const text = await response.body.text();
    if (response.statusCode !== 200) {
      this.refused.push(response.statusCode);
      return;
    }
    const isWhole = isStream ? text.endsWith('data: [DONE]\n\n') : text.endsWith('}');
    if (!isWhole) throw new Error('the stream ended early');
    const outcome = String(response.headers['x-consort-outcome']);
    this.whole.push(outcome);
    if (later) this.#remember(outcome, text, row, index);
  }

  #remember(outcome: string, text: string, row: TaskRow, index: number): void {
    const { choices } = JSON.parse(text) as { choices: { message: { content: string } }[] };
    const verifier = verifiers.find(({ id }) => id === 'exact-match')!;
    const completion = choices[0]!.message.content;
    const { reward } = verifier.grade({ completion, gold: row.gold, params: {} });
    const dueAt = performance.now() + LATEST_FEEDBACK_MS * chance('late', this.#seed, index);
    this.#opinions.push({ outcome, value: reward ?? 0, dueAt });
  }

  async #judge(): Promise<void> {
    while (!this.#isOver) await this.#post();
  }

  /** Posts what is due. What is not accepted, for whatever reason, is posted again: the later entry wins. */
  async #post(): Promise<void> {
    const now = performance.now();
    const due = this.#opinions.filter(({ dueAt }) => dueAt <= now);
    const [gateway] = this.#gateways();
    if (!gateway || due.length === 0) {
      await sleep(50);
      return;
    }
    const kept = this.#opinions.filter(({ dueAt }) => dueAt > now);
    this.#opinions.splice(0, this.#opinions.length, ...kept);
    for (const opinion of due) {
      const body = JSON.stringify({ outcome_id: opinion.outcome, value: opinion.value });
      const isTaken = await request(`${gateway.url}/v1/feedback`, { method: 'POST', headers, body }).then(
        async (response) => (await response.body.text(), response.statusCode === 202),
        () => false,
      );
      if (isTaken) this.judged.push(opinion.outcome);
      else this.#opinions.push({ ...opinion, dueAt: now + 500 });
    }
  }

  /** Opinions that no gateway took. */
  get unheard(): number {
    return this.#opinions.length;
  }
}
