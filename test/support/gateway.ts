/** A real gateway on a free port, with everything but the store: what is recorded stays in memory. */
import { Writable } from 'node:stream';
import { pino } from 'pino';
import type { Test } from 'tap';
import { checkDocument } from '../../src/config/check.ts';
import { known } from '../../src/cli/known.ts';
import { clock, newId } from '../../src/cli/natives.ts';
import { countedBy, openSystem } from '../../src/cli/system.ts';
import type { Estimate } from '../../src/contract/estimate.ts';
import type { Outcome } from '../../src/contract/outcome.ts';
import type { Reward } from '../../src/contract/reward.ts';
import type { Turns } from '../../src/contract/store.ts';
import { Admission } from '../../src/gateway/limits/admission.ts';
import { Limits, type Totals } from '../../src/gateway/limits/limits.ts';
import { LocalTotals } from '../../src/gateway/limits/local.ts';
import { LoopDelay } from '../../src/gateway/limits/loop-delay.ts';
import { KeptResponses } from '../../src/gateway/kept-responses.ts';
import { Metrics } from '../../src/gateway/metrics.ts';
import { protocols } from '../../src/gateway/protocols/index.ts';
import { createResolver } from '../../src/gateway/resolve.ts';
import { createServer, listen } from '../../src/gateway/server.ts';
import { ToolTurns } from '../../src/gateway/tool-turns.ts';
import { UnderWay } from '../../src/gateway/under-way.ts';
import { verifiers } from '../../src/scoring/rewards/index.ts';

export interface TestGateway {
  readonly url: string;
  readonly outcomes: readonly Outcome[];
  readonly rewards: readonly Reward[];
  /** Everything that was logged. */
  readonly log: () => string;
  readonly metrics: () => Promise<string>;
  /** Resolves with the outcome of this id, or with the next one. */
  outcome(id?: string | null): Promise<Outcome>;
  /** Whether the recorder takes anything. */
  isFull: boolean;
}

export interface GatewayOptions {
  /** Where turns of tools are kept; by default nowhere. */
  readonly turns?: Turns;
  readonly estimates?: readonly Estimate[];
  readonly notice?: string;
  /** Where limits of keys are kept; by default nowhere that is shared. */
  readonly totals?: Totals;
}

const NOWHERE: Turns = {
  keep: () => Promise.resolve(),
  find: () => Promise.resolve(undefined),
};

export async function startGateway(
  t: Test,
  document: object,
  { estimates = [], notice, turns = NOWHERE, totals = new LocalTotals(clock) }: GatewayOptions = {},
): Promise<TestGateway> {
  // The loop of a test is late for reasons of its own.
  const server = { maxLoopDelayMs: 60_000, ...('server' in document ? Object(document.server) : {}) };
  const { config, problems } = checkDocument({ ...document, server }, known);
  if (!config) throw new TypeError(JSON.stringify(problems));
  let log = '';
  const sink = new Writable({
    write(line: Buffer, _encoding, done) {
      log += line.toString();
      done();
    },
  });
  const outcomes: Outcome[] = [];
  const rewards: Reward[] = [];
  const waiting = new Set<() => void>();
  const metrics = new Metrics('test');
  const limits = new Limits({
    totals,
    clock,
    keys: config.auth.keys,
    mostMs: config.server.maxStreamSeconds * 1000,
    refuseWithoutStore: config.auth.withoutStore === 'refuse',
    onRefused: (limit) => metrics.limited(limit),
    onAway: (isAway) => metrics.limitsAlone(isAway),
  });
  const system = openSystem(config, {
    secret: 'a secret',
    onOutcome(outcome) {
      outcomes.push(outcome);
      metrics.observe(outcome);
      limits.spent(outcome);
      for (const wake of waiting) wake();
    },
    ...countedBy(metrics),
  });
  metrics.upstreams.watchCircuits(system);
  const delay = new LoopDelay(() => clock.elapsed());
  const catalog = () => system.catalog;
  const find = (id: string) => outcomes.find((outcome) => outcome.id === id);
  const gateway = { isFull: false };
  const app = await createServer({
    config,
    catalog,
    resolve: createResolver({
      catalog,
      protocols,
      verifiers: verifiers.map(({ id }) => id),
      inlinePlans: config.server.inlinePlans,
      maxStreamMs: config.server.maxStreamSeconds * 1000,
      newId,
    }),
    run: system.run,
    store: {
      ledger: { outcome: () => Promise.resolve(undefined) },
      estimates: {
        query: ({ system: id, task }) =>
          Promise.resolve(
            estimates.filter(
              (one) => (!id || one.system === id) && (task === undefined || one.task === task),
            ),
          ),
      },
      releases: { list: () => Promise.resolve([]) },
    },
    responses: new KeptResponses(turns),
    turns: new ToolTurns({ store: turns, onTurn: (result) => metrics.turned(result) }),
    recorder: {
      append(entry) {
        if (gateway.isFull) return false;
        if (entry.kind === 'reward') rewards.push(entry.reward);
        return true;
      },
      find: (id) => Promise.resolve(find(id)),
    },
    admission: new Admission({
      maxRuns: config.server.maxRuns,
      maxLoopDelayMs: config.server.maxLoopDelayMs,
      loopDelayMs: () => delay.ms,
      random: () => 0.5,
      onShed: (reason) => metrics.shed(reason),
    }),
    limits,
    underWay: new UnderWay(),
    metrics,
    clock,
    newId,
    logger: pino({ level: 'debug' }, sink),
    notice: notice ?? null,
  });
  const url = await listen(app, '127.0.0.1', 0);
  t.teardown(async () => {
    app.server.closeAllConnections();
    await app.close();
    await system.close();
    delay.close();
  });
  return Object.assign(gateway, {
    url,
    outcomes,
    rewards,
    log: () => log,
    metrics: () => metrics.registry.metrics(),
    async outcome(id?: string | null) {
      const before = outcomes.length;
      for (;;) {
        const found = id ? find(id) : outcomes[before];
        if (found) return found;
        await new Promise<void>((resolve) => {
          waiting.add(resolve);
        });
      }
    },
  });
}

export interface Answered {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  // oxlint-disable-next-line typescript/no-explicit-any -- bodies are looked into as they come
  readonly json: any;
}

export interface Sending {
  readonly key?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
  readonly method?: string;
}

/** One request; a body that is no string is sent as JSON. */
export async function send(url: string, body?: unknown, sending: Sending = {}): Promise<Answered> {
  const response = await open(url, body, sending);
  const text = await response.text();
  const isJson = response.headers.get('content-type')?.startsWith('application/json');
  return {
    status: response.status,
    headers: response.headers,
    text,
    json: isJson ? JSON.parse(text) : undefined,
  };
}

/** As `send`, with the body still to come. */
export function open(
  url: string,
  body?: unknown,
  { key, headers, signal, method }: Sending = {},
): Promise<Response> {
  return fetch(url, {
    method: method ?? (body === undefined ? 'GET' : 'POST'),
    headers: {
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...(key !== undefined && { authorization: `Bearer ${key}` }),
      ...headers,
    },
    ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    ...(signal && { signal }),
  });
}

/** The data of all events of a streamed body, as they stand there. */
export function dataOf(text: string): string[] {
  return text.split('\n\n').flatMap((part) => (part.startsWith('data: ') ? part.slice(6) : []));
}
