/**
 * A load of our own, a process of its own: `concurrency` loops over undici's dispatch, bounded in time and number.
 * It does what wrk cannot: read streams to their end, and fan out as the fuse protocol does.
 *
 * usage: node client.ts JSON (a `ClientJob`); prints a `Load` as JSON.
 */
import { Pool, type Dispatcher } from 'undici';
import type { Load } from './load.ts';
import { percentile } from './numbers.ts';
import { KEY, requestBody } from './traffic.ts';

export interface ClientJob {
  readonly url: string;
  readonly model: string;
  readonly concurrency: number;
  readonly seconds: number;
  readonly most: number;
  /**
   * `team`: one request whose answer takes several calls behind it; `fan-out`: the client makes them itself, three
   * drafts side by side, then one call that has them in its prompt.
   */
  readonly kind: 'whole' | 'stream' | 'team' | 'fan-out';
}

const job = JSON.parse(process.argv[2]!) as ClientJob;
const pool = new Pool(job.url, { connections: 4 * job.concurrency, headersTimeout: 0, bodyTimeout: 0 });
const headers = { 'content-type': 'application/json', authorization: `Bearer ${KEY}` };

interface Heard {
  readonly text: string;
  readonly firstAt: number;
}

function post(body: string): Promise<Heard> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let firstAt = 0;
    const handler: Dispatcher.DispatchHandler = {
      onRequestStart() {},
      onResponseStart(controller, status) {
        if (status !== 200) controller.abort(new Error(`status ${status}`));
      },
      onResponseData(_controller, chunk) {
        firstAt ||= performance.now();
        chunks.push(chunk);
      },
      onResponseEnd() {
        resolve({ text: Buffer.concat(chunks).toString(), firstAt });
      },
      onResponseError: (_controller, error) => reject(error),
    };
    pool.dispatch({ path: '/v1/chat/completions', method: 'POST', headers, body }, handler);
  });
}

function textOf({ text }: Heard): string {
  const { choices } = JSON.parse(text) as { choices: { message: { content: string } }[] };
  return choices[0]!.message.content;
}

async function fanOut(): Promise<Heard> {
  const body = requestBody(job.model, false);
  const drafts = await Promise.all([post(body), post(body), post(body)]);
  return post(requestBody(job.model, false, [{ role: 'user', content: drafts.map(textOf).join('\n\n') }]));
}

const body = requestBody(job.model, job.kind === 'stream');
const ask = job.kind === 'fan-out' ? fanOut : () => post(body);
const latencies: number[] = [];
const firsts: number[] = [];
let left = job.most;
let failed = 0;
const begun = performance.now();
const cpu = process.cpuUsage();
const until = begun + job.seconds * 1000;

async function loop(): Promise<void> {
  while (left > 0 && performance.now() < until) {
    left--;
    const start = performance.now();
    try {
      const { text, firstAt } = await ask();
      if (job.kind === 'stream' && !text.endsWith('data: [DONE]\n\n')) throw new Error('cut off');
      firsts.push(firstAt - start);
      latencies.push(performance.now() - start);
    } catch {
      failed++;
    }
  }
}

await Promise.all(Array.from({ length: job.concurrency }, loop));
const { user, system } = process.cpuUsage(cpu);
const load: Load = {
  requests: latencies.length,
  seconds: (performance.now() - begun) / 1000,
  failed,
  p50Ms: percentile(latencies, 0.5),
  p99Ms: percentile(latencies, 0.99),
  firstByteMs: percentile(firsts, 0.5),
  clientCpuMicros: user + system,
};
process.stdout.write(`${JSON.stringify(load)}\n`);
await pool.destroy();
